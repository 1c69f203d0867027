package guard

import (
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

var errHost = errors.New("not a usable host")

// maxHost is the longest name in DNS.
const maxHost = 253

// NormalHost returns the form in which hosts are compared and dialled: lower case, without a
// trailing dot, addresses in their canonical text. It refuses empty and overlong names, anything
// but ASCII letters, digits, '-', '_' and dots, addresses with a zone, and numbers that some
// resolvers take for an IPv4 address (0177.1, 2130706433).
func NormalHost(host string) (string, error) {
	// This check comes first, because some letters beyond ASCII have a lower case within it: the
	// name that is dialled would be another one.
	if strings.ContainsFunc(host, func(r rune) bool { return r > unicode.MaxASCII }) {
		return "", errHost
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		if addr.Zone() != "" {
			return "", errHost
		}
		return addr.String(), nil
	}
	if host == "" || len(host) > maxHost {
		return "", errHost
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return "", errHost
		}
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errHost
	}
	return host, nil
}

// SplitAuthority reads "host:port" with a numeric port.
func SplitAuthority(authority string) (host string, port uint16, err error) {
	h, p, err := net.SplitHostPort(authority)
	if err != nil {
		return "", 0, errHost
	}
	n, err := strconv.ParseUint(p, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errHost
	}
	host, err = NormalHost(h)
	return host, uint16(n), err
}
