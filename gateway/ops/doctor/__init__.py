"""`ostler doctor`: is every agent here installed, keyed, quick and safe to share? Looks, tries, says what to mend."""
