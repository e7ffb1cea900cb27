"""Commands on alarms and incidents: test targets, resend or dismiss alarms, acknowledge."""
