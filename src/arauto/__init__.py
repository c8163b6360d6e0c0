"""Arauto: a multi-tenant, real-time message bus."""

__version__ = "0.1.0"
__all__ = ["__version__"]
