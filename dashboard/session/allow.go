package session

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// maxGroups bounds the groups that a session keeps, in bytes of their names. JSON may need six
// times as much, and pay.MaxSessionData is 16 KiB.
const maxGroups = 2 << 10

// groupPrefix begins the entries of a list that name groups.
const groupPrefix = "group:"

// allowed holds a list of people, such as PURSER_OIDC_ALLOW.
type allowed struct {
	all                        bool // "*": every identity that the provider signs in
	domains, addresses, groups []string
}

// standing holds the claims that an allowed list judges. Sessions keep it, so that each request is
// judged by the current list.
type standing struct {
	// Email holds an address that the provider calls verified, in lower case.
	Email  string   `json:"email,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// parseAllowed reads a list such as "@example.com, alice@example.org, group:payments". Its errors name
// the variable.
func parseAllowed(variable, text string) (a allowed, err error) {
	if strings.TrimSpace(text) == "" {
		return allowed{}, nil
	}
	wrong := func(entry, why string) (allowed, error) {
		return allowed{}, fmt.Errorf("%s: %q: %s", variable, entry, why)
	}
	for _, entry := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == '\n' }) {
		entry = strings.TrimSpace(entry)
		group, isGroup := strings.CutPrefix(entry, groupPrefix)
		words := strings.Fields(entry)
		local, domain, isAddress := strings.Cut(entry, "@")
		switch {
		case entry == "":
		case entry == "*":
			a.all = true
		case isGroup && strings.TrimSpace(group) == "":
			return wrong(entry, "a group has a name, as in group:payments")
		case isGroup && slices.ContainsFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, groupPrefix) || strings.Contains(w, "@") }),
			!isGroup && len(words) > 1:
			return wrong(entry, "entries are separated by commas")
		case isGroup:
			a.groups = append(a.groups, strings.TrimSpace(group))
		case strings.ContainsFunc(entry, func(r rune) bool { return r > unicode.MaxASCII }):
			return wrong(entry, "write domains as DNS has them (xn--…)")
		case local == "*" && isDomain(domain):
			return wrong(entry, "for a whole domain write @"+domain)
		case !isAddress && isDomain(entry):
			return wrong(entry, "for a whole domain write @"+entry)
		case !isAddress || !isDomain(domain):
			return wrong(entry, "neither a domain (@example.com), an address (alice@example.com) nor a group (group:payments)")
		case local == "":
			a.domains = append(a.domains, lower(domain))
		default:
			a.addresses = append(a.addresses, lower(entry))
		}
	}
	if !a.set() {
		return wrong(text, "it lists nobody; unset it, or write * for everybody whom the provider signs in")
	}
	return a, nil
}

// set reports whether there is a list.
func (a allowed) set() bool { return a.all || len(a.domains)+len(a.addresses)+len(a.groups) > 0 }

// has reports whether the list has a person. A domain must match completely; a subdomain is another
// domain.
func (a allowed) has(s standing) bool {
	if a.all {
		return true
	}
	if local, domain, _ := strings.Cut(s.Email, "@"); local != "" && isDomain(domain) &&
		(slices.Contains(a.domains, domain) || slices.Contains(a.addresses, s.Email)) {
		return true
	}
	return slices.ContainsFunc(s.Groups, func(g string) bool { return slices.Contains(a.groups, g) })
}

// address says for the log whether the claims have an address, without the address.
func (c claims) address() string {
	switch {
	case c.verified() != "":
		return "verified"
	case c.Email == nil:
		return "missing"
	case c.Verified == nil:
		return "without email_verified"
	}
	return "not verified"
}

// with fills gaps in an ID token's claims from userinfo. An address and its verification come from
// the same document.
func (c claims) with(userinfo claims) claims {
	if c.Email == nil || c.Verified == nil {
		c.Email, c.Verified = userinfo.Email, userinfo.Verified
	}
	if c.Groups == nil {
		c.Groups = userinfo.Groups
	}
	return c
}

// verified returns the address that the provider calls verified, in lower case. It returns "" when
// the provider does not call it verified, because some providers let users enter any address. It
// also returns "" for anything but a plain address.
func (c claims) verified() string {
	email, _ := c.Email.(string)
	_, domain, _ := strings.Cut(email, "@")
	if !slices.Contains([]any{true, "true"}, c.Verified) || !isDomain(domain) ||
		strings.ContainsFunc(email, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return ""
	}
	return lower(email)
}

// groups returns the groups of the claim with this name. Some providers send a single group as a
// string.
func (c claims) groups() (list []string) {
	switch v := c.Groups.(type) {
	case string:
		list = append(list, v)
	case []any:
		for _, one := range v {
			if name, ok := one.(string); ok {
				list = append(list, name)
			}
		}
	}
	return list
}

// isDomain reports whether text has the form of a domain in ASCII, without a final dot.
func isDomain(text string) bool {
	labels := strings.Split(text, ".")
	return len(text) < 254 && !slices.ContainsFunc(labels, func(l string) bool {
		return l == "" || len(l) > 63 || strings.HasPrefix(l, "-") || strings.HasSuffix(l, "-") ||
			strings.Trim(lower(l), "abcdefghijklmnopqrstuvwxyz0123456789-") != ""
	})
}

// lower folds the case of ASCII letters only. Unicode folds other letters, such as the Kelvin sign,
// to ASCII letters. Addresses with such letters belong to other people.
func lower(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// turnAway answers an identity that the provider vouches for, but that the list does not allow. It
// makes no account. A session of the same identity in this browser ends. A session of another
// identity stays, because a link must not sign a visitor out.
func (g *Gate) turnAway(w http.ResponseWriter, r *http.Request, at place, p proof) error {
	g.log.Warn("sign-in refused: the identity is in no list of people, such as PURSER_OIDC_ALLOW",
		"address", p.claims.address(), "groups", len(p.claims.groups()))
	v, ok, err := g.session(r, at)
	if err == nil && ok && v.Account.Issuer == p.who.Issuer && v.Account.Subject == p.who.Subject {
		err = g.dismiss(w, r, at)
	}
	return cmp.Or(err, errNoAccess)
}

// endSession ends the session of an identity that the list no longer allows.
func (g *Gate) endSession(w http.ResponseWriter, r *http.Request, at place, v Visitor) error {
	if fromScript(r) { // the page that the script loads says why
		redirect(w, r, Home, http.StatusForbidden)
		return nil
	}
	g.log.Warn("session ended: its identity is in no list of people any more, such as PURSER_OIDC_ALLOW", "account", v.Account.ID)
	return cmp.Or(g.dismiss(w, r, at), errNoAccess)
}

var errNoAccess error = &refusal{status: http.StatusForbidden, Notice: Notice{
	Title: "You have no access",
	Text: "Your identity provider knows you, but you are not among those who may use this dashboard. The operator of this purser " +
		"decides who is.",
	Action: "Try again", ActionURL: SignIn,
}}
