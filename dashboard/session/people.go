package session

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/purserpay/purser/pay"
)

// PeopleOptions say who may do what of those whom the provider signs in. Lists are written as in
// "@example.com, alice@example.org, group:payments". The list "*" has every person.
type PeopleOptions struct {
	// Allow lists who may sign in. Empty: the people of the other lists, and everybody if there is
	// none.
	Allow string
	// Operators, Approvers and Viewers list people who see the whole purser, each in that role.
	Operators, Approvers, Viewers string
	// Organization says which organization the others have: "own", "domain" (of their verified
	// address), "group", or "group:PREFIX". Default: own.
	Organization string
	// Owners lists those who own the organization that they share. The others only see it. Required if
	// organizations are shared.
	Owners string
}

// Bounded reports whether a list says who may sign in.
func (o PeopleOptions) Bounded() bool {
	return o.Allow+o.Operators+o.Approvers+o.Viewers+o.Owners != ""
}

// people judges claims by PeopleOptions.
type people struct {
	allow, operators, approvers, owners, viewers allowed

	byDomain, byGroup bool
	prefix            string // of groups that share an organization
}

// membership says what a person has.
type membership struct {
	role Role
	all  bool // all organizations
	// shared is the id of the organization that the person shares. It is empty for a person with an
	// organization of their own, and for one who has all.
	shared string
	// name is the domain or the group that shares it.
	name string
}

func parsePeople(o PeopleOptions) (p people, err error) {
	for _, list := range []struct {
		variable, text string
		into           *allowed
	}{
		{"PURSER_OIDC_ALLOW", o.Allow, &p.allow},
		{"PURSER_OIDC_OPERATORS", o.Operators, &p.operators},
		{"PURSER_OIDC_APPROVERS", o.Approvers, &p.approvers},
		{"PURSER_OIDC_OWNERS", o.Owners, &p.owners},
		{"PURSER_OIDC_VIEWERS", o.Viewers, &p.viewers},
	} {
		if *list.into, err = parseAllowed(list.variable, list.text); err != nil {
			return people{}, err
		}
	}
	kind, prefix, named := strings.Cut(strings.TrimSpace(o.Organization), ":")
	switch {
	case named && (kind != "group" || prefix == ""), !slices.Contains([]string{"", "own", "domain", "group"}, kind):
		return people{}, fmt.Errorf("PURSER_OIDC_ORGANIZATION: %q: own, domain, group or group:PREFIX", o.Organization)
	}
	p.byDomain, p.byGroup, p.prefix = kind == "domain", kind == "group", prefix
	switch shares := p.byDomain || p.byGroup; {
	case shares && !p.owners.set():
		return people{}, errors.New("PURSER_OIDC_OWNERS is missing: who owns a shared organization, as in group:leads, or * for all of its people. Without an owner it would have no keys")
	case !shares && p.owners.set():
		return people{}, errors.New("PURSER_OIDC_OWNERS needs PURSER_OIDC_ORGANIZATION: without shared organizations, every person owns theirs")
	}
	return p, nil
}

// lists returns all lists.
func (p people) lists() []allowed {
	return []allowed{p.allow, p.operators, p.approvers, p.owners, p.viewers}
}

// listed reports whether a list has the person.
func (p people) listed(s standing) bool {
	return slices.ContainsFunc(p.lists(), func(a allowed) bool { return a.has(s) })
}

// admits reports whether a person may sign in.
func (p people) admits(s standing) bool {
	return p.listed(s) || !slices.ContainsFunc(p.lists(), allowed.set)
}

// of returns what a person has whom the provider signs in, by the first list that has the person:
// operators, approvers, owners, viewers.
func (p people) of(issuer string, s standing) membership {
	switch {
	case p.operators.has(s):
		return membership{role: Operator, all: true}
	case p.approvers.has(s):
		return membership{role: Approver, all: true}
	}
	m := p.shared(issuer, s)
	switch {
	case m.shared != "" && p.owners.has(s):
		m.role = Owner
	case p.viewers.has(s):
		return membership{role: Viewer, all: true}
	case m.shared != "":
		m.role = Viewer
	default:
		m.role = Owner
	}
	return m
}

// shared returns the organization that a person shares. If several groups match, the first by its
// bytes counts: providers do not keep an order.
func (p people) shared(issuer string, s standing) (m membership) {
	kind := "group"
	switch _, domain, _ := strings.Cut(s.Email, "@"); {
	case p.byDomain && domain != "" && !publicMail(domain):
		kind, m.name = "domain", domain
	case p.byGroup:
		for _, g := range s.Groups {
			if p.shares(g) && (m.name == "" || g < m.name) {
				m.name = g
			}
		}
	}
	if m.name != "" {
		hash := pay.HashOf("shared organization", issuer, kind, m.name)
		m.shared = "org_" + hex.EncodeToString(hash[:16])
	}
	return m
}

// shares reports whether the people of a group share an organization.
func (p people) shares(group string) bool {
	return p.byGroup && group != "" && strings.HasPrefix(group, p.prefix)
}

// lacks reports whether the claims leave out what a list or the organization needs, so that userinfo
// must be asked.
func (p people) lacks(c claims) bool {
	addresses, groups := p.byDomain, p.byGroup
	for _, a := range p.lists() {
		addresses = addresses || len(a.domains)+len(a.addresses) > 0
		groups = groups || len(a.groups) > 0
	}
	return addresses && (c.Email == nil || c.Verified == nil) || groups && c.Groups == nil
}

// settled reports whether more claims cannot give a person more.
func (p people) settled(s standing) bool {
	more := p.byDomain || p.byGroup || slices.ContainsFunc(p.lists()[1:], allowed.set)
	return p.operators.has(s) || !more && p.admits(s)
}

// standing reads the claims that a session keeps.
func (p people) standing(c claims) standing {
	s := standing{Email: c.verified()}
	groups := c.groups()
	// Groups that matter come first, so that maxGroups leaves out others.
	rank := func(g string) int {
		switch {
		case slices.ContainsFunc(p.lists(), func(a allowed) bool { return slices.Contains(a.groups, g) }):
			return 0
		case p.shares(g):
			return 1
		}
		return 2
	}
	slices.SortFunc(groups, func(x, y string) int {
		if by := rank(x) - rank(y); by != 0 {
			return by
		}
		return strings.Compare(x, y)
	})
	size := 0
	for _, g := range groups {
		if size += len(g); size > maxGroups {
			break
		}
		s.Groups = append(s.Groups, g)
	}
	return s
}

// publicMail reports whether everybody can have an address at a domain. People with such addresses
// share nothing. The list cannot be complete: PURSER_OIDC_ALLOW bounds who signs in.
func publicMail(domain string) bool {
	name, rest, _ := strings.Cut(domain, ".")
	if slices.Contains([]string{"gmx", "hotmail", "live", "outlook", "yahoo", "ymail", "yandex"}, name) && len(rest) <= len("com.au") {
		return true // in every country
	}
	return slices.Contains([]string{
		"126.com", "163.com", "aol.com", "bigpond.com", "bk.ru", "btinternet.com", "comcast.net", "cox.net", "daum.net", "disroot.org", "duck.com",
		"email.com", "fastmail.com", "fastmail.fm", "foxmail.com", "free.fr", "freenet.de", "gmail.com", "googlemail.com", "hanmail.net", "hey.com",
		"hushmail.com", "icloud.com", "inbox.com", "inbox.ru", "laposte.net", "libero.it", "list.ru", "mac.com", "mail.com", "mail.de", "mail.ru",
		"mailbox.org", "mailfence.com", "mailinator.com", "me.com", "msn.com", "mozmail.com", "naver.com", "o2.pl", "onet.pl", "optonline.net",
		"orange.fr", "passport.com", "pm.me", "posteo.de", "privaterelay.appleid.com", "proton.me", "protonmail.ch", "protonmail.com", "qq.com",
		"rambler.ru", "rediffmail.com", "riseup.net", "rocketmail.com", "runbox.com", "sbcglobal.net", "seznam.cz", "sfr.fr", "sina.com", "skiff.com",
		"sky.com", "sohu.com", "t-online.de", "tuta.com", "tuta.io", "tutamail.com", "tutanota.com", "tutanota.de", "ukr.net", "users.noreply.github.com",
		"verizon.net", "virgilio.it", "wanadoo.fr", "web.de", "wp.pl", "xtra.co.nz", "ya.ru", "yeah.net", "zoho.com", "zohomail.com",
	}, domain)
}
