"""The HTTP routes of the admin API. They translate; what they do stands in `operations`."""
