package pay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// A repeat is recognized, and a counter is found again, by what an earlier purser stored. So none
// of these values may change.
func TestStoredIdentities(t *testing.T) {
	t.Parallel()
	const (
		url = "https://User:pw@API.example.com:8443/v1/../v1/data?q=1"
		// The counters of every payment, and those of the proxied ones.
		pending = "pending/n/KEY 1 7, pending/sum/KEY 1500 7, hold/WALLET/USDC 1500 106, day/KEY/USDC/2026-11-20 1500 10"
		proxied = "place/key/KEY/2026-11 1 22, minute/KEY/2026-11-20T12:00 1 0, " + pending
		rest    = "place/key/KEY/2026-11 1 22, " + pending
		site    = ", site-day/KEY/USDC/2026-11-20/com.example.api:8443/ 1500 10"
	)
	for name, c := range map[string]struct {
		change                                 func(*pay.Request)
		fingerprint, identity, price, counters string
	}{
		"rest, settled by purser": {
			func(r *pay.Request) { r.Settlement = pay.SettlePayer },
			"dbd1025873c16f20387c39fbbbd05302e19b666f137e97d7753a4c3ba23b3266",
			"aa3c42ea7b57958204d5e9fa0fef7d300057ea9e6c84ce3041029d71f93adb21", "", rest + site,
		},
		"rest, settled by the seller, of the operator": {
			func(r *pay.Request) { r.Key.Operator = true },
			"f5f4e88e844d5ca576fd0d86c41f3e78d333a85546709de822c6cfe9f758c27a",
			"e7f671aa1a723d381598958f15b6b98df0a845fe9093e67a3a79312a39de9254",
			"price/KEY/USDC/99ed331e27af2bfb2b105dded81ecc284399af2c8a7eef8e696e29860ef08efb", "minute/KEY/2026-11-20T12:00 1 0, " + pending + site,
		},
		"rest, without a URL": {
			func(r *pay.Request) { r.URL, r.Key.Operator = "", true },
			"bac922cc0a6c211a1839ed3242ce3f16ba26c6aa40ed62f8e01e18a31f029417",
			"8aa6424e352ca4d229d4249fb6c9d6eac9ca0f0bd3f0ffc71f91d4f5dd1c4030",
			"price/KEY/USDC/390feabc786e369e55b904251d643b52b52b691c60eb74a498ef7c6df993bf12", "minute/KEY/2026-11-20T12:00 1 0, " + pending,
		},
		"proxy": {
			func(r *pay.Request) {
				r.Door, r.HTTP = policy.DoorProxy, &pay.HTTPRequest{Method: "POST", URL: url, Body: pay.HashOf("a body")}
			},
			"fdc167fe103336edfe178dd185b7398b4903dfdd6fd38b3ab3f98b76075cdff6",
			"ba16cb025253678605924c64584109ec568ae4ccce4ddf8b3400506fec184e68",
			"price/KEY/USDC/0f4669b0311a0fd7b4895f0718aa08613aab55da23d7ab1bd3d3886467391de8", proxied + site,
		},
		"transport, with a task": {
			func(r *pay.Request) {
				r.Door, r.Task, r.HTTP = policy.DoorTransport, "crawl", &pay.HTTPRequest{Method: "GET", URL: url}
			},
			"dd54ddc58b46e20d5e73f4ba3253922ce46b22464e3ac44785ad79b6adc1d511",
			"c3ebd6af1b1ac52ad9551c770d04e98c9997b297ae0f98fc9740aba9bae999b3",
			"price/KEY/USDC/f1a13c74cb81cb0006bba0b1eafd747a669bdb6c18f679765fc87a116ac5c7d7",
			proxied + ", task-day/KEY/crawl/USDC/2026-11-20 1500 10" + site,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			guard, perMinute := 3, 60
			w := newWorld(t, func(o *pay.Options) { o.DefaultPolicy = policy.Policy{PriceGuard: &guard, PerMinute: &perMinute} })
			r := w.rest(pay.SettleSeller, url, "1500", "")
			c.change(&r)
			a := must(w.payer.Open(t.Context(), r))
			a.Finish(true)
			p := a.Payment()
			fingerprint, _ := p.Fingerprint.MarshalText()
			identity, _ := p.Identity.MarshalText()
			var counters []string
			for _, r := range p.Reservations {
				counters = append(counters, fmt.Sprintf("%s %s %d", r.Counter, r.Amount, r.Release))
			}
			anonymous := strings.NewReplacer(p.KeyID, "KEY", p.WalletID, "WALLET").Replace
			for what, is := range map[string]struct{ got, want string }{
				"fingerprint": {string(fingerprint), c.fingerprint},
				"identity":    {string(identity), c.identity},
				"price":       {anonymous(string(p.Price)), c.price},
				"counters":    {anonymous(strings.Join(counters, ", ")), c.counters},
			} {
				if is.got != is.want {
					t.Errorf("%s is %s, want %s", what, is.got, is.want)
				}
			}
		})
	}
}

// The words and numbers that are stored.
func TestStoredWords(t *testing.T) {
	t.Parallel()
	got := fmt.Sprintln(
		pay.Open, pay.Settled, pay.Void, pay.SettlePayer, pay.SettleSeller, policy.DoorAPI, policy.DoorProxy, policy.DoorTransport, pay.StageVerify, pay.StageSettle,
		(&pay.Payment{Refused: true, Unresolved: true, Confirmed: true, Disputed: true, Reconciled: true}).Labels(),
		pay.PlanFree, pay.PlanDeveloper, pay.PlanAgency, pay.ActorOperator, pay.ActorAccount, pay.ActorConfiguration,
		pay.AtSettled, pay.AtVoid, pay.AtRefused, pay.AtRefusedExpired, pay.AtUnresolved, pay.CountsMoved, pay.AtEvidence,
		pay.PlaceCounter("org/ORG", time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)),
		pay.ActionKeyCreate, pay.ActionKeyPolicy, pay.ActionKeyLink, pay.ActionKeyAdopt, pay.ActionKeyPause, pay.ActionKeyResume, pay.ActionKeyRevoke,
		pay.ActionWalletCreate, pay.ActionWalletDelete, pay.ActionPlan, pay.ActionPauseAll, pay.ActionResumeAll, pay.ActionPaymentResolve,
		pay.ActionReconcileAccept, pay.ActionRPCTrust,
	)
	const want = "open settled void payer seller api proxy transport verification settlement " +
		"[ refused unresolved confirmed disputed reconciled] FREE DEVELOPER AGENCY operator account configuration 1 2 4 8 16 32 64 place/org/ORG/2026-11 " +
		"key.create key.policy key.link key.adopt key.pause key.resume key.revoke wallet.create wallet.delete organization.plan pause resume " +
		"payment.resolve reconcile.accept rpc.trust\n"
	if got != want {
		t.Errorf("%s", got)
	}
}
