"""Problems of the Hock and Schittkowski collection, by kind of constraint; see `auglag.problems.hock_schittkowski`."""
