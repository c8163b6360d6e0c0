"""The admin API: operations an administrator can do, and the HTTP front that translates to them."""
