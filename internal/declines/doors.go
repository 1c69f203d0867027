package declines

// Refusal is a word for requests that a door refuses before a seller can ask for money.
type Refusal struct {
	Word string
	Why  string

	// Developer and Operator are as in [Reason]; "": there is nothing to say beyond the answer's own text.
	Developer, Operator string
}

// UnknownKey and UnknownKeyDetail tell a client that its API key resolves to none: REST in a 401, the proxy in a 407.
const (
	UnknownKey       = "API key not resolved"
	UnknownKeyDetail = "purser does not know this key: it may be mistyped, revoked, or the key of another purser"
)

// Refusals returns the words in the order of pages. Words that [All] has as well are not among them.
func Refusals() []Refusal {
	return []Refusal{
		{Word: "too-many-failed-logins", Why: "the client sent wrong API keys too often"},
		{
			Word: "proxy-credentials", Why: "the API key of an open connection is not valid any more",
			Developer: "ask the operator for a key of this purser, and give it as the user name in the proxy's URL",
			Operator:  "`purser keys` lists the keys; `purser keys create` and `purser keys reissue KEY` print a new one",
		},
		{Word: "api-key", Why: "the request has no valid API key where the `key` of a sidecar looks for it"},
		{Word: "relay-not-allowed", Why: "a key of POST /api-keys may not use the proxy until an operator lets it"},
		{Word: "task-label", Why: "the task is not 1 to 64 characters of A-Z a-z 0-9 . _ -"},
		{Word: "too-many-tunnels", Why: "too many connections of the key, or of its client, are open"},
		{Word: "bad-request", Why: "the request cannot be relayed: it has no host that can be used, or a form that a proxy does not take"},
		{Word: "misdirected", Why: "the request was for another host than its connection"},
		{Word: "method", Why: "the proxy does not relay this method"},
		{Word: "loop", Why: "the request came back to the same proxy"},
		{Word: "http-version", Why: "the proxy speaks HTTP/1.1 to its clients"},
		{Word: "deny-host", Why: "the name is no host that purser can look up"},
		{Word: "deny-reach", Why: "the host is outside `allow_hosts`, or on `deny_hosts`, of `purser_proxy`"},
		{Word: "deny-port", Why: "purser does not connect to this port; `ports` allows others"},
		{Word: "deny-own-listener", Why: "the address is purser's own"},
		{Word: "deny-unspecified", Why: "the address stands for this machine itself"},
		{Word: "deny-loopback", Why: "the address is this machine's own; PURSER_ALLOW_ADDRESSES allows it"},
		{Word: "deny-private", Why: "the address is in a private network; PURSER_ALLOW_ADDRESSES allows it"},
		{Word: "deny-link-local", Why: "the address is link-local, as cloud metadata is"},
		{Word: "deny-metadata", Why: "the address serves cloud metadata"},
		{Word: "deny-shared", Why: "the address is of a network that carriers share among customers"},
		{Word: "deny-multicast", Why: "the address stands for many machines"},
		{Word: "deny-documentation", Why: "the address is reserved for documentation"},
		{Word: "deny-benchmarking", Why: "the address is reserved for measurements"},
		{Word: "deny-embedded", Why: "the address hides another one inside"},
		{Word: "deny-reserved", Why: "the address is reserved"},
	}
}
