import platform

__version__ = "0.1.0"


def described() -> str:
    """In the form that AMPL's solvers answer `-v` with."""
    return f"auglag {__version__} ({platform.system()} {platform.machine()}), Python {platform.python_version()}"
