package proxy

import (
	"fmt"
	"strings"
)

// HostList is a list of hosts: names and addresses, "*.example.com" for all names below
// one, and "*" for all hosts. The zero list has none.
type HostList struct {
	all    bool
	exact  map[string]bool
	suffix []string // with their leading dot
}

// ParseHosts reads the entries of a list.
func ParseHosts(entries ...string) (HostList, error) {
	l := HostList{exact: make(map[string]bool, len(entries))}
	for _, e := range entries {
		if e == "*" {
			l.all = true
			continue
		}
		name, below := strings.CutPrefix(e, "*.")
		host, err := normalHost(name)
		if err != nil {
			return HostList{}, fmt.Errorf("%q: %w", e, err)
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
func (l HostList) Contains(host string) bool {
	if l.all || l.exact[host] {
		return true
	}
	for _, s := range l.suffix {
		if strings.HasSuffix(host, s) {
			return true
		}
	}
	return false
}
