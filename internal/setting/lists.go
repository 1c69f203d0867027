package setting

import (
	"cmp"
	"net"
	"slices"
	"strings"

	"github.com/purserpay/purser/internal/guard"
	"github.com/purserpay/purser/x402"
)

// Split splits a value at commas and spaces.
func Split(v string) []string {
	return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })
}

// List is an option that is a list, which may be empty.
func (o Option) List(given string) ([]string, error) {
	v, err := o.Value(given)
	return Split(v), err
}

// Entries is List for restrictions. A list of nothing but separators is a mistake: taken for no
// list at all, it would allow everything.
func (o Option) Entries(given string) ([]string, error) {
	v, err := o.Value(given)
	if err != nil {
		return nil, err
	}
	all := Split(v)
	if len(all) == 0 && given+v != "" {
		return nil, o.Errorf("%q names nothing", cmp.Or(v, given))
	}
	return append([]string(nil), all...), nil // nil: it is unset
}

// All are the entries of an option that can be repeated, each of which may name several.
func (o Option) All(given []string) (all []string, err error) {
	if len(given) == 0 {
		return o.Entries("")
	}
	for _, g := range given {
		entries, err := o.Entries(g)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// Some returns an option that lists some of these words. what names one of them.
func (o Option) Some(what string, of ...string) func(given string) ([]string, error) {
	return func(given string) ([]string, error) {
		all, err := o.List(given)
		for _, name := range all {
			if !slices.Contains(of, name) {
				return nil, o.Errorf("unknown %s %q", what, name)
			}
		}
		if err != nil || len(all) > 0 {
			return all, err
		}
		return nil, o.Errorf("no %s is named", what)
	}
}

// Addresses is an option that is a list of addresses of payees.
func (o Option) Addresses(given string) (all []x402.Address, err error) {
	entries, err := o.Entries(given)
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		address, err := x402.ParseCheckedAddress(entry)
		if err != nil {
			return nil, o.Errorf("%q: %w", entry, err)
		}
		all = append(all, address)
	}
	return all, nil
}

// Networks is an option that lists networks by their names. Each may stand once.
func (o Option) Networks(given string) (all []x402.Network, err error) {
	names, err := o.List(given)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, ok := x402.NetworkByWire(name)
		switch {
		case !ok || n.Name != name:
			return nil, o.Errorf("unknown network %q", name)
		case slices.ContainsFunc(all, func(o x402.Network) bool { return o.Name == name }):
			return nil, o.Errorf("%s is named twice", name)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, o.Errorf("no network is named")
	}
	return all, nil
}

// Hosts is an option that is a list of hosts.
func (o Option) Hosts(given []string) (guard.Hosts, error) {
	entries, err := o.All(given)
	if err != nil {
		return guard.Hosts{}, err
	}
	hosts, err := guard.ParseHosts(entries...)
	if err != nil {
		return guard.Hosts{}, o.Errorf("%w", err)
	}
	return hosts, nil
}

// Resolver is an option that is a DNS server; nil if it is not set.
func (o Option) Resolver(given string) (*net.Resolver, error) {
	v, err := o.Value(given)
	if err != nil || v == "" {
		return nil, err
	}
	r, err := guard.ParseResolver(v)
	if err != nil {
		err = o.Errorf("%w", err)
	}
	return r, err
}

// Ports is an option that lists ports and ranges of ports.
func (o Option) Ports(given string) ([]guard.PortRange, error) {
	names, err := o.List(given)
	if err != nil {
		return nil, err
	}
	ports, err := guard.ParsePorts(names...)
	if err != nil {
		return nil, o.Errorf("%w", err)
	}
	return ports, nil
}
