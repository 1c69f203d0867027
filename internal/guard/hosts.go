package guard

import (
	"fmt"
	"slices"
	"strings"
)

// Hosts is a list of hosts: names and addresses, "*.example.com" for all names below example.com,
// and "*" for all hosts. The zero list is empty.
type Hosts struct {
	all    bool
	exact  map[string]bool
	suffix []string // with their leading dot
}

// ParseHosts reads the entries of a list.
func ParseHosts(entries ...string) (Hosts, error) {
	l := Hosts{exact: make(map[string]bool, len(entries))}
	for _, e := range entries {
		if e == "*" {
			l.all = true
			continue
		}
		name, below := strings.CutPrefix(e, "*.")
		host, err := NormalHost(name)
		if err != nil {
			return Hosts{}, fmt.Errorf("%q: %w", e, err)
		}
		if below {
			l.suffix = append(l.suffix, "."+host)
		} else {
			l.exact[host] = true
		}
	}
	return l, nil
}

// Contains reports whether a host, a name or an address in normal form, is on the list.
func (l Hosts) Contains(host string) bool {
	return l.all || l.exact[host] || slices.ContainsFunc(l.suffix, func(s string) bool { return strings.HasSuffix(host, s) })
}

// empty reports whether no host is on the list.
func (l Hosts) empty() bool { return !l.all && len(l.exact)+len(l.suffix) == 0 }
