"""Values of the dispatcher's chart and variables of its container about the HTTP API's tokens."""

LOGIN_VARIABLE = "GLOBAL_DISPATCHER_HTTP__LOGIN__TOKEN_FILE"
TOKENS = {"httpTokens": {"existingSecret": "readers", "key": "all", "ownKey": "prometheus"}}
