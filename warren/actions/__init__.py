"""What short commands do on behalf of the user who types them."""
