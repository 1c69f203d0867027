package guard

// Reach says which hosts may be connected to, by the names or addresses that clients ask for. The
// addresses of a name that may be are judged all the same.
type Reach struct {
	// Allow lists all of them. Empty: all that Deny lacks.
	Allow Hosts
	// Deny lists hosts that may not be connected to in any case.
	Deny Hosts
	// Report is told of each host that is outside, which may then be connected to all the same; nil:
	// such a host is refused.
	Report func(host string)
}

// refuses judges a host, a name or an address in normal form.
func (r Reach) refuses(host string) bool {
	if !r.Deny.Contains(host) && (r.Allow.empty() || r.Allow.Contains(host)) {
		return false
	}
	if r.Report != nil {
		r.Report(host)
		return false
	}
	return true
}
