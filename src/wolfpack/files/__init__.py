"""Files of users and of wolfpack; what they hold is checked before it is used."""
