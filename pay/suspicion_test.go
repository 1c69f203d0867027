package pay_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// pays makes a payment that moves and is answered.
func (w *world) pays(r pay.Request) {
	w.t.Helper()
	a := w.mustOpen(r)
	a.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: w.sellerMoves(a.Payload())})
	a.Finish(true)
	w.quiet()
	w.chain.advance(11 * time.Minute) // for longer than a verdict is used again
}

// A person sees the first payment to a host that can be taken for one that the key pays, to one that another
// site has led to, and by terms of another site.
func TestSuspiciousHostsAreHeld(t *testing.T) {
	t.Parallel()
	on, off := true, false
	for name, c := range map[string]struct {
		url, resource, from, rule string
		door                      policy.Door
		policy                    policy.Policy
	}{
		"look-alike":            {url: "https://api.stableenrlch.dev/x", rule: pay.RuleApprovalLookAlike},
		"another ending":        {url: "https://stableenrich.com/x", rule: pay.RuleApprovalLookAlike},
		"its terms elsewhere":   {url: "https://shop.test/x", resource: "https://api.stableenrich.dev/x", rule: pay.RuleApprovalOtherSite},
		"led there":             {url: "https://shop.test/x", from: "https://api.stableenrich.dev/", rule: pay.RuleApprovalOtherSite},
		"with every new host":   {url: "https://stableenrich.com/x", rule: pay.RuleApprovalLookAlike, policy: policy.Policy{RequireApprovalNewHosts: &on}},
		"the same owner":        {url: "https://api2.stableenrich.dev/x"},
		"paid before":           {url: "https://api.stableenrich.dev/y", resource: "https://shop.test/x", from: "https://shop.test/"},
		"another host":          {url: "https://shop.test/x"},
		"own name inside":       {url: "https://shop.test/x", resource: "http://10.0.3.7:3000/x"},
		"a path as resource":    {url: "https://shop.test/x", resource: "/x"},
		"led within a site":     {url: "https://shop.test/x", from: "http://www.shop.test/"},
		"no new host is seen":   {url: "https://stableenrich.com/x", policy: policy.Policy{RequireApprovalNewHosts: &off}},
		"the host is allowed":   {url: "https://stableenrich.com/x", policy: policy.Policy{AllowHosts: []string{"stableenrich.com", "api.stableenrich.dev"}}},
		"the host has a budget": {url: "https://stableenrich.com/x", policy: policy.Policy{Hosts: map[string]policy.Budget{"stableenrich.com": {}}}},
		"over REST":             {url: "https://stableenrich.com/x", door: policy.DoorAPI},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.pays(w.proxied("https://api.stableenrich.dev/x", "100", ""))
			w.key.Policy = &c.policy
			r := w.proxied(c.url, "100", "")
			if c.resource != "" {
				r.Challenge = challengeFor(t, c.resource, "100")
			}
			if r.LedFrom = c.from; c.door != "" {
				r.Door, r.HTTP = c.door, nil
			}
			a, err := w.payer.Open(context.Background(), r)
			if c.rule == "" {
				if err != nil {
					t.Fatal(err)
				}
				a.Finish(true)
				return
			}
			held, is := errors.AsType[*pay.ApprovalError](err)
			if !is || held.Approval.Rule != c.rule || held.Approval.ID == "" {
				t.Fatalf("%v, want %s", err, c.rule)
			}
			if !strings.Contains(err.Error(), "stableenrich.dev") {
				t.Errorf("%v does not name the other host", err)
			}
			if _, err := w.payer.AnswerApproval(by(context.Background()), pay.ApprovalAnswering{ID: held.Approval.ID, Answer: pay.Approved, At: w.chain.clock()}); err != nil {
				t.Fatal(err)
			}
			w.pays(r)
			r = w.proxied(c.url+"/again", "100", "")
			w.mustOpen(r).Finish(true) // the host has been paid
		})
	}
}
