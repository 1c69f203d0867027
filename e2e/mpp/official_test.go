package mpp

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/purserpay/purser/sandbox/mppshop"
)

// Each official client buys from each official seller on each rail. It pays for nothing that is not delivered. mppx 0.11 and
// pympp 0.16 have different nonces for evm, so that they do not understand each other there.
func TestOfficialClients(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		for _, script := range []string{mppx, pympp} {
			t.Run(c.name+" at "+script, func(t *testing.T) {
				t.Parallel()
				s, a := env.seller(t, script), newAccount(t, true)
				rails := []string{"tempo", "sponsored", "evm", "both"}
				if script == mppx {
					rails = append(rails, "split", "auth")
				}
				purchases := []purchase{{s.URL + "/tempo?post", []byte("the body\x00\xff")}}
				for _, rail := range rails {
					purchases = append(purchases, purchase{url: s.URL + "/" + rail})
				}
				understood := (c.name == "npm") == (script == mppx)
				got := c.official(t, a, purchases)
				for i, r := range got {
					onEVM := strings.HasSuffix(purchases[i].url, "/evm") || strings.HasSuffix(purchases[i].url, "/both")
					if want := understood || !onEVM; (r.Status == http.StatusOK) != want {
						t.Errorf("%s: %+v", purchases[i].url, r)
					}
				}
				if !strings.Contains(got[0].Text, "the body") {
					t.Errorf("%+v", got[0])
				}
				if n, _ := env.moved(t, a.Address()); n != answers(got) {
					t.Errorf("%d debits, %d answers", n, answers(got))
				}
			})
		}
	}
}

// troubles are plays in which an official client pays more than once, or gives up, although it understands the seller.
var troubles = []string{
	"denies", "settles-denies", "late", "late-gift", "storm", "both-storm", "lost", "lost-before", "broken-once", "swap", "swap-back",
}

// The official clients understand the sandbox's seller, in whichever way it writes its header, but for a few ways.
func TestOfficialClientsAtOurShop(t *testing.T) {
	t.Parallel()
	strange := map[string]map[string]string{
		"npm": {
			"newer":      "later versions have this nonce",
			"beside-bad": "one challenge that it cannot read ends all",
		},
		"pypi": {
			"spaces":    "it reads no spaces around equals signs",
			"opaque":    "it sorts what it should send back as it is",
			"swap-back": "it does not know x402",
		},
	}
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			shop, url := openShop(t, mppshop.Options{Newer: c.name == "pypi"})
			a := newAccount(t, false)
			var purchases []purchase
			var plays []mppshop.Play
			for _, p := range mppshop.Plays() {
				if p.Outcome == mppshop.Delivered && !slices.Contains(troubles, p.Name) {
					plays, purchases = append(plays, p), append(purchases, purchase{url: url + "/" + p.Name})
				}
			}
			delivered := 0
			for i, r := range c.official(t, a, purchases) {
				name := plays[i].Name
				why, known := strange[c.name][name]
				if n := shop.Count("/" + name); (r.Status == http.StatusOK && len(n.Refusals) == 0) == known {
					t.Errorf("%s (%s): %+v, %+v", name, why, r, n)
				}
				if r.Status == http.StatusOK {
					delivered++
				}
			}
			if n := env.debits(t, a.Address()); n != delivered || n != shop.Count("").Settlements {
				t.Errorf("%d debits, %d deliveries, %+v", n, delivered, shop.Count(""))
			}
		})
	}
}
