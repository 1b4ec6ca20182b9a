"""auglag."""
