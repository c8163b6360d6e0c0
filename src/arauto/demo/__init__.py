"""What `arauto demo` shows: a few simulated shops, which are clients of their node like any other."""
