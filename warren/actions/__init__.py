"""What short commands do, in the name of the user who types them."""
