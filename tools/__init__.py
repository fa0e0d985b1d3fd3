"""Programs for developers: measurements, generators and campaigns. Nothing here is installed with the product."""
