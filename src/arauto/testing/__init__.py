"""Fakes that tests of Arauto, and of code built on it, may use. Nothing else imports this package."""

from arauto.testing.clock import FakeClock, FakeTimer

__all__ = ["FakeClock", "FakeTimer"]
