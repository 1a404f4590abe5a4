"""Formula against simulation on single flows."""
