"""How alarms are sent: messages, e-mail, webhooks, and where a webhook may lead."""
