package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// MaxHost bounds the name of a host, in bytes: DNS has no longer one.
const MaxHost = 253

// CheckHost says why no door pays at the host of a URL; nil: they do. A URL without a host passes.
// Longer names than those of DNS lead nowhere, and stores and notices keep hosts.
func CheckHost(u *url.URL) error {
	if len(strings.TrimSuffix(u.Hostname(), ".")) > MaxHost {
		return fmt.Errorf("its host has more than %d bytes", MaxHost)
	}
	if _, err := strconv.ParseUint(u.Port(), 10, 16); err != nil && u.Port() != "" {
		return errors.New("its port is above 65535")
	}
	return nil
}

// Site is the host and port of a URL, in the one form in which hosts are compared.
type Site struct {
	// Name is in lower case and without a trailing dot; an address in its shortest form, an
	// IPv6 one in brackets. "" is no site.
	Name    string
	port    string // also when it is the scheme's own
	address bool
	implied bool   // the port is the scheme's own
	part    string // of a server of MCP, such as tool/get_weather, escaped; ""
}

// SiteOf reads a URL. It returns the zero site for a URL that is not absolute.
func SiteOf(raw string) Site {
	u, err := url.Parse(raw)
	if err != nil {
		return Site{}
	}
	return SiteIn(u)
}

// SiteIn reads a parsed URL. A host beyond ASCII gives the zero site: its xn-- form is dialled.
func SiteIn(u *url.URL) Site {
	var s Site
	if u.Hostname() == "" || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r > unicode.MaxASCII }) {
		return s
	}
	s.Name, s.address = normalName(u.Hostname())
	s.port = u.Port()
	if n, err := strconv.ParseUint(s.port, 10, 64); err == nil { // 0443 leads where 443 does
		s.port = strconv.FormatUint(n, 10)
	}
	own := map[string]string{"http": "80", "https": "443", schemeMCP: "443"}[u.Scheme]
	if s.port == "" {
		s.port = own
	}
	s.implied = s.port == own
	if u.Scheme == schemeMCP {
		s.part = strings.Trim(u.EscapedPath(), "/")
	}
	return s
}

// schemeMCP is the scheme of URLs under which calls of MCP are booked: mcp://api.example.com/tool/get_weather.
const schemeMCP = "mcp"

// normalName returns a host, given without brackets, in the form of site.name.
func normalName(host string) (name string, address bool) {
	name = strings.TrimSuffix(strings.ToLower(host), ".")
	addr, err := netip.ParseAddr(name)
	if err != nil {
		return name, false
	}
	addr = addr.Unmap() // [::ffff:192.0.2.1] leads where 192.0.2.1 does
	if addr.Is6() {
		return "[" + addr.String() + "]", true
	}
	return addr.String(), true
}

// String returns the host as policy and books show it: with the port unless it is the scheme's.
func (s Site) String() string {
	if s.implied || s.port == "" {
		return s.Name
	}
	return s.Name + ":" + s.port
}

// Words names the site for people, with the tool.
func (s Site) Words() string {
	if s.part == "" {
		return s.String()
	}
	return s.tool()
}

// tool is the pattern that matches the part alone.
func (s Site) tool() string { return schemeMCP + "://" + s.String() + "/" + s.part }

// Patterns lists all patterns that match the site, the most specific first. A name is not below
// itself, and an address is below nothing.
func (s Site) Patterns() []string {
	if s.Name == "" {
		return nil
	}
	list := make([]string, 0, 7)
	if s.part != "" {
		list = append(list, s.tool())
	}
	if s.port != "" {
		list = append(list, s.Name+":"+s.port)
	}
	list = append(list, s.Name)
	if s.address {
		return list
	}
	for above := s.Name; ; {
		var ok bool
		if _, above, ok = strings.Cut(above, "."); !ok || above == "" {
			return list
		}
		list = append(list, "*."+above)
	}
}

var errPattern = errors.New(`neither "name", "name:port" nor "*.example.com", nor a tool such as "mcp://name/tool/get_weather"`)

// normalPattern returns a pattern in the form that site.patterns has.
func normalPattern(p string) (string, error) {
	if strings.HasPrefix(p, schemeMCP+"://") {
		return normalTool(p)
	}
	host, below := strings.CutPrefix(p, "*.")
	port := ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		n, err := strconv.ParseUint(host[i+1:], 10, 16)
		if err != nil || n == 0 || below {
			return "", errPattern
		}
		host, port = host[:i], ":"+strconv.FormatUint(n, 10)
	}
	inside, closed := strings.CutSuffix(host, "]")
	inside, bracketed := strings.CutPrefix(inside, "[")
	name, address := normalName(inside)
	switch {
	case closed != bracketed,
		bracketed && (!address || !strings.Contains(inside, ":") || strings.Contains(inside, "%")),
		!bracketed && strings.Contains(inside, ":"),
		address && below,
		!address && !validName(name):
		return "", errPattern
	case below:
		return "*." + name, nil
	}
	return name + port, nil
}

// normalTool is normalPattern for what a server of MCP sells: a tool, a resource or a prompt.
func normalTool(p string) (string, error) {
	u, err := url.Parse(p)
	if err != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.User != nil {
		return "", errPattern
	}
	at := SiteIn(u)
	host, err := normalPattern(at.String())
	kind, name, _ := strings.Cut(at.part, "/")
	if err != nil || strings.HasPrefix(host, "*") || !slices.Contains([]string{"tool", "resource", "prompt"}, kind) || name == "" || strings.Contains(name, "/") {
		return "", errPattern
	}
	plain, err := url.PathUnescape(name)
	if err != nil {
		return "", errPattern
	}
	return schemeMCP + "://" + host + "/" + kind + "/" + url.PathEscape(plain), nil
}

// NamesTool reports whether a URL names what a server of MCP sells, as payments for it are booked.
func NamesTool(raw string) bool { return ToolOf(raw) != "" }

// ToolOf returns the one spelling of a URL that names what a server of MCP sells: a tool, a resource or a prompt, such
// as mcp://api.example.com/tool/get_weather. It returns "" for any other URL.
func ToolOf(raw string) string {
	if !strings.HasPrefix(raw, schemeMCP+"://") {
		return ""
	}
	tool, err := normalTool(raw)
	if err != nil {
		return ""
	}
	return tool
}

// validName reports whether s is a DNS name in lower case; international ones are in
// their xn-- form.
func validName(s string) bool {
	if len(s) > MaxHost {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// Key names a site with its labels reversed and its port: sites below a name stand together.
func (s Site) Key() string {
	key := reversed(s.Name, s.address) + ":" + s.port + siteEnd
	if s.part != "" {
		key += s.part + siteEnd
	}
	return key
}

// siteEnd ends a site's key, so that none begins with another.
const siteEnd = "/"

// PatternKey begins the keys of all sites that a pattern matches, and no others.
func PatternKey(pattern string) string {
	if below, ok := strings.CutPrefix(pattern, "*."); ok {
		return reversed(below, false) + "."
	}
	if strings.HasPrefix(pattern, schemeMCP+"://") {
		return SiteOf(pattern).Key()
	}
	at := SiteOf("//" + pattern)
	if at.port == "" {
		return reversed(at.Name, at.address) + ":"
	}
	return at.Key()
}

func reversed(name string, address bool) string {
	if address {
		return "[" + strings.Trim(name, "[]") + "]"
	}
	labels := strings.Split(name, ".")
	slices.Reverse(labels)
	return strings.Join(labels, ".")
}
