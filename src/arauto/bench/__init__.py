"""The benchmark harness behind `arauto bench`: Arauto and its peers, side by side in one run."""
