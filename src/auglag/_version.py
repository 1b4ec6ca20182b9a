__version__ = "0.1.0"


def described() -> str:
    """In the form that AMPL's solvers answer `-v` with."""
    import platform  # here, so that `import auglag` does not pay for it

    return f"auglag {__version__} ({platform.system()} {platform.machine()}), Python {platform.python_version()}"
