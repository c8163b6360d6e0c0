"""What happened in each five minutes, hour and day, per hub and in all."""
