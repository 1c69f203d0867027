package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/installation"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
)

// Overview holds the output of 'purser status'. It leaves out what could not be asked.
type Overview struct {
	adminapi.Status
	Addresses *installation.Addresses `json:"addresses,omitempty"`
	Wallets   []adminapi.Wallet       `json:"wallets"`
	Keys      []keyToday              `json:"keys"`
	// Open counts the open payments, Unresolved names those that wait for an operator. Both are bounded.
	Open       int      `json:"open_payments"`
	Unresolved []string `json:"unresolved_payments"`
	// Do lists what the operator should do, in words.
	Do []string `json:"do"`

	now      time.Time
	moreOpen bool
}

// keyToday tells what a key did on the present day (UTC), in the smallest unit of USDC.
type keyToday struct {
	ID    string  `json:"id"`
	Label string  `json:"label"`
	Spent string  `json:"spent"`
	Left  *string `json:"left"` // nil: it has no daily budget
}

const (
	overviewRows = 5   // of a list on the screen
	overviewKeys = 200 // that are looked at
	overviewOpen = 100 // payments that are counted
)

// look asks for all that status shows beside the state. An old or busy purser may not answer all of it.
func (env *Env) look(a *asking, s *Overview) {
	s.Wallets, s.Keys, s.Unresolved, s.Do = []adminapi.Wallet{}, []keyToday{}, []string{}, []string{}
	if s.Health == nil {
		return
	}
	var config json.RawMessage
	if a.client.call(a.Context(), http.MethodGet, "/config/", nil, &config) == nil {
		if at, err := installation.AddressesIn(config, env.Getenv); err == nil {
			s.Addresses = &at
		}
	}
	if list, _, err := fetchPage[adminapi.Wallet](a.Context(), a.client, "wallets", url.Values{}); err == nil {
		s.Wallets = list
	}
	slices.SortStableFunc(s.Wallets, func(x, y adminapi.Wallet) int {
		return cmp.Or(cmp.Compare(others(x), others(y)), cmp.Compare(held(x), held(y)))
	})
	ask := url.Values{"today": {"true"}, "limit": {strconv.Itoa(overviewKeys)}}
	if list, _, err := fetchPage[adminapi.Key](a.Context(), a.client, "keys", ask); err == nil {
		for _, k := range list {
			if k.Today != nil && k.Revoked.IsZero() {
				s.Keys = append(s.Keys, keyToday{k.ID, k.Label, k.Today.Spent, k.Today.Left})
			}
		}
	}
	slices.SortStableFunc(s.Keys, func(x, y keyToday) int { return cmp.Compare(inUnits(y.Spent), inUnits(x.Spent)) })
	for _, state := range []string{string(pay.Open), "unresolved"} {
		ask := url.Values{"state": {state}, "limit": {strconv.Itoa(overviewOpen)}}
		list, next, err := fetchPage[adminapi.Payment](a.Context(), a.client, "payments", ask)
		switch {
		case err != nil:
		case state == string(pay.Open):
			s.Open, s.moreOpen = len(list), next != ""
		default:
			for _, p := range list {
				s.Unresolved = append(s.Unresolved, p.ID)
			}
		}
	}
	s.Do = append(s.Do, s.advice()...)
}

// others orders the operator's wallets before those that others spend.
func others(w adminapi.Wallet) int {
	if w.Operator {
		return 0
	}
	return 1
}

// held orders wallets by what they hold; unknown balances come last.
func held(w adminapi.Wallet) float64 {
	if w.Balance == nil {
		return 1e30
	}
	return inUnits(*w.Balance)
}

// inUnits orders amounts; it is not exact.
func inUnits(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0
	}
	return n
}

// advice says what an operator should do, about troubles first.
func (s *Overview) advice() (list []string) {
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for _, t := range s.Troubles {
		add("%s", t.Do)
	}
	if slices.ContainsFunc(s.Wallets, func(w adminapi.Wallet) bool { return w.Balance == nil }) && s.Health.RPC == "none" {
		add("balances are unknown without an RPC: set %s in purser.env, then purser reload", rpcURLVariable)
	}
	if q := s.Quotas; q != nil && q.Exhausted > 0 {
		add("the plan of %d keys or organizations is used up: purser organizations", q.Exhausted)
	}
	if r := s.Registration; r != nil && len(r.Exposed) > 0 {
		add("everybody who reaches %s can make keys: PURSER_REGISTRATION=off closes that", strings.Join(r.Exposed, ", "))
	}
	for _, k := range s.Replaced {
		add("%s was PURSER_KEY and still pays: %s", k.ID, k.Command)
	}
	return list
}

func writeStatus(t *table, s Overview) {
	head := s.Version
	if !s.Since.IsZero() {
		head += ", up " + span(s.now.Sub(s.Since))
	}
	if s.Process != 0 {
		head += ", pid " + strconv.Itoa(s.Process)
	}
	t.row("purser", head)
	writeAddresses(t, s.Addresses)
	if s.Store != nil {
		t.row("database", s.Store.Kind+" "+s.Store.Path)
	}
	writeHealth(t, s)
	if s.Reconcile != nil {
		writePending(t, *s.Reconcile)
	}
	writeMoney(t, s)
	writeTroubles(t, s)
	lead := "to do"
	for _, text := range s.Do[min(len(s.Troubles), len(s.Do)):] {
		t.row(lead, text)
		lead = ""
	}
}

// writeTroubles writes what is wrong, since when, what agents notice, and what to do.
func writeTroubles(t *table, s Overview) {
	lead := "trouble"
	for _, one := range s.Troubles {
		head := map[trouble.Effect]string{trouble.Stops: "stops payments", trouble.Soon: "will stop payments"}[one.Effect]
		if lasts := s.now.Sub(one.Since); !one.Since.IsZero() && lasts >= time.Second {
			head = strings.TrimPrefix(head+", since "+span(lasts), ", ")
		}
		if head != "" {
			t.row(lead, head)
			lead = ""
		}
		for _, text := range []string{one.Says + ". " + one.Means, "→ " + one.Do} {
			for _, line := range folded(text, 80) {
				t.row(lead, line)
				lead = ""
			}
		}
	}
}

// folded is a text in lines of some characters at most, unless a word is longer.
func folded(text string, width int) (lines []string) {
	for word := range strings.FieldsSeq(text) {
		if n := len(lines); n > 0 && utf8.RuneCountInString(lines[n-1])+1+utf8.RuneCountInString(word) <= width {
			lines[n-1] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// writeAddresses writes each address once, with the names of all that is there.
func writeAddresses(t *table, a *installation.Addresses) {
	if a == nil {
		return
	}
	for _, door := range []struct {
		name string
		urls []string
	}{
		{"proxy", a.Proxy}, {"REST", a.REST}, {"sidecar", a.Sidecar}, {"dashboard", a.Dashboard}, {"metrics", a.Metrics},
	} {
		switch {
		case len(door.urls) == 0:
		case door.name == "REST" && slices.Equal(a.Proxy, a.REST):
		case door.name == "proxy" && slices.Equal(a.Proxy, a.REST):
			t.row("proxy, REST", strings.Join(door.urls, " "))
		default:
			t.row(door.name, strings.Join(door.urls, " "))
		}
	}
}

// writeHealth writes what is well on one line, and what is not on lines of its own.
func writeHealth(t *table, s Overview) {
	h := s.Health
	if h == nil {
		t.row("state", "not started")
		return
	}
	var well, without []string
	var ill [][2]string
	for _, part := range [][2]string{
		{"store", h.Store}, {"RPC", h.RPC}, {"second RPC", h.SecondRPC}, {"facilitator", h.Facilitator}, {"signer", h.Signer}, {"clock", h.Clock}, {"nodes", h.Nodes},
	} {
		switch part[1] {
		case "ok":
			well = append(well, part[0])
		case "none", "":
			if part[0] == "RPC" || part[0] == "facilitator" {
				without = append(without, part[0])
			}
		default:
			ill = append(ill, part)
		}
	}
	text := strings.Join(well, ", ") + " ok"
	if len(without) > 0 {
		text += "; no " + strings.Join(without, ", no ")
	}
	t.row("health", text)
	for _, part := range ill {
		t.row(part[0], part[1])
	}
	chain := ""
	if s.Store != nil {
		chain = s.Store.World
	}
	switch chain {
	case "":
		chain = ", not seen yet"
	case "sandbox":
		chain = ", the sandbox's"
	default:
		chain = ""
	}
	t.row("network", h.Network+chain+"; wallets "+h.Wallets)
	if s.Registration != nil {
		t.row("registration", registrationText(s.Registration))
	}
	if s.Paused != nil {
		t.row("payments", stateText(s.Paused, time.Time{}))
	}
	if q := s.Quotas; q != nil {
		t.row("quotas", fmt.Sprintf("%d of %d used up; fullest: %s, %s of %s payments this month",
			q.Exhausted, q.Counted, q.Fullest, q.Used, q.Most))
	}
}

// writeMoney writes wallets, keys, open payments and what was declined.
func writeMoney(t *table, s Overview) {
	if s.Health == nil {
		return
	}
	lead := "wallets"
	for _, w := range s.Wallets[:min(overviewRows, len(s.Wallets))] {
		address, balance := "no address", "balance unknown"
		if w.Address != nil {
			address = *w.Address
		}
		if w.Balance != nil {
			balance = units(*w.Balance) + " USDC"
		}
		if w.Code != "" && !w.CodeAccepts {
			balance += ", cannot pay: it has " + w.Code
		}
		t.row(lead, fmt.Sprintf("%s  %s  %s  %s", address, w.Network, balance, cmp.Or(w.KeyLabel, w.KeyID)))
		lead = ""
	}
	if n := len(s.Wallets) - overviewRows; n > 0 {
		t.row("", fmt.Sprintf("and %d more: purser wallets", n))
	}
	lead = "today"
	for _, k := range s.Keys[:min(overviewRows, len(s.Keys))] {
		left := "no daily budget"
		if k.Left != nil {
			left = units(*k.Left) + " left"
		}
		t.row(lead, fmt.Sprintf("%s spent %s USDC, %s", cmp.Or(k.Label, k.ID), signedUnits(k.Spent), left))
		lead = ""
	}
	if n := len(s.Keys) - overviewRows; n > 0 {
		t.row("", fmt.Sprintf("and %d more keys: purser limits", n))
	}
	open := strconv.Itoa(s.Open)
	switch {
	case s.moreOpen:
		open = "more than " + open + ": purser payments --state open"
	case s.Open > 0:
		open += ": purser payments --state open"
	}
	t.row("open payments", open)
	declined := "nothing"
	if len(s.Declined) > 0 {
		reasons := slices.SortedFunc(maps.Keys(s.Declined), func(x, y string) int {
			return cmp.Or(cmp.Compare(s.Declined[y], s.Declined[x]), cmp.Compare(x, y))
		})
		var parts []string
		for _, reason := range reasons[:min(overviewRows, len(reasons))] {
			parts = append(parts, fmt.Sprintf("%s %d", reason, s.Declined[reason]))
		}
		declined = strings.Join(parts, ", ")
		if n := len(reasons) - overviewRows; n > 0 {
			declined += fmt.Sprintf(", and %d other reasons", n)
		}
	}
	t.row("declined", declined+" in the last hour")
}

// span writes a time for people, such as "3 h 12 min".
func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}
