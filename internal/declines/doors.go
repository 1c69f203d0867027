package declines

// Refusal is a word for requests that a door refuses before a seller can ask for money.
type Refusal struct {
	Word string
	Why  string
}

// UnknownKey and UnknownKeyDetail tell a client that its API key resolves to none: REST in a 401, the proxy in a 407.
const (
	UnknownKey       = "API key not resolved"
	UnknownKeyDetail = "purser does not know this key: it may be mistyped, revoked, or the key of another purser"
)

// Refusals returns the words in the order of pages. Words that [All] has as well are not among them.
func Refusals() []Refusal {
	return []Refusal{
		{"too-many-failed-logins", "the client sent wrong API keys too often"},
		{"proxy-credentials", "the API key of an open connection is not valid any more"},
		{"api-key", "the request has no valid API key where the `key` of a sidecar looks for it"},
		{"relay-not-allowed", "a key of POST /api-keys may not use the proxy until an operator lets it"},
		{"task-label", "the task is not 1 to 64 characters of A-Z a-z 0-9 . _ -"},
		{"too-many-tunnels", "too many connections of the key, or of its client, are open"},
		{"bad-request", "the request cannot be relayed: it has no host that can be used, or a form that a proxy does not take"},
		{"misdirected", "the request was for another host than its connection"},
		{"method", "the proxy does not relay this method"},
		{"loop", "the request came back to the same proxy"},
		{"http-version", "the proxy speaks HTTP/1.1 to its clients"},
		{"deny-host", "the name is no host that purser can look up"},
		{"deny-reach", "the host is outside `allow_hosts`, or on `deny_hosts`, of `purser_proxy`"},
		{"deny-port", "purser does not connect to this port; `ports` allows others"},
		{"deny-own-listener", "the address is purser's own"},
		{"deny-unspecified", "the address stands for this machine itself"},
		{"deny-loopback", "the address is this machine's own; PURSER_ALLOW_ADDRESSES allows it"},
		{"deny-private", "the address is in a private network; PURSER_ALLOW_ADDRESSES allows it"},
		{"deny-link-local", "the address is link-local, as cloud metadata is"},
		{"deny-metadata", "the address serves cloud metadata"},
		{"deny-shared", "the address is of a network that carriers share among customers"},
		{"deny-multicast", "the address stands for many machines"},
		{"deny-documentation", "the address is reserved for documentation"},
		{"deny-benchmarking", "the address is reserved for measurements"},
		{"deny-embedded", "the address hides another one inside"},
		{"deny-reserved", "the address is reserved"},
	}
}
