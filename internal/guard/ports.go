package guard

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// PortRange is a range of TCP ports, both ends included.
type PortRange struct{ First, Last uint16 }

// defaultPorts leave out mail, shells and the other services below 1024, which HTTP clients do not
// need.
var defaultPorts = []PortRange{{80, 80}, {443, 443}, {1024, 65535}}

// ParsePorts reads ports and ranges, such as "443" and "1024-65535".
func ParsePorts(texts ...string) ([]PortRange, error) {
	var out []PortRange
	for _, text := range texts {
		first, last, isRange := strings.Cut(text, "-")
		if !isRange {
			last = first
		}
		a, err1 := strconv.ParseUint(first, 10, 16)
		b, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || a == 0 || a > b {
			return nil, fmt.Errorf("%q is not a port or a range of ports", text)
		}
		out = append(out, PortRange{uint16(a), uint16(b)})
	}
	return out, nil
}

func portAllowed(ranges []PortRange, port uint16) bool {
	if len(ranges) == 0 {
		ranges = defaultPorts
	}
	return slices.ContainsFunc(ranges, func(r PortRange) bool { return r.First <= port && port <= r.Last })
}

// ParsePrefixes reads CIDRs such as 10.0.0.0/8.
func ParsePrefixes(cidrs ...string) (all []netip.Prefix, err error) {
	for _, cidr := range cidrs {
		prefix, err := netip.ParsePrefix(cidr)
		if err != nil {
			return nil, fmt.Errorf("%q is not a CIDR such as 10.0.0.0/8", cidr)
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}
