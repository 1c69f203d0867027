package caddymodule

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
)

// What a key spent today is told, and what that leaves.
func TestToday(t *testing.T) {
	s, socket := bookSite(t)
	key := newKey(t, s.url())
	keys := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys
	id := keys[0].ID
	if today := keys[0].Today; today == nil || today.Spent != "0" || today.Left == nil || *today.Left != "10000000" {
		t.Errorf("before anything was spent: %+v", today)
	}
	// REST heeds, and counts, limits that the key has itself.
	told(t, socket, "limits", id, "--daily-budget", "5")
	mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(20_000, "https://api.example.com/x"))
	tells := func(left string, args ...string) {
		t.Helper()
		text := strings.Join(strings.Fields(told(t, socket, append([]string{"limits", id}, args...)...)), " ")
		if !strings.Contains(text, " spent today 0.02 ") || strings.Contains(text, " left today ") != (left != "") || !strings.Contains(text, left) {
			t.Errorf("%q: %s", args, text)
		}
	}
	tells("left today 4.98 at the proxy")
	text := strings.Join(strings.Fields(told(t, socket, "limits")), " ")
	if !strings.Contains(text, "DAILY SPENT TODAY LEFT MONTHLY") || !strings.Contains(text, " 1 5 0.02 4.98 - ") {
		t.Errorf("%s", text)
	}
	tells("left today 0 at the proxy", "--daily-budget", "0.01")
	tells("", "--daily-budget", "off")
	_, text = adminCall(t, socket, "GET", "/purser/keys/"+id)
	if today := decode[adminapi.Key](t, text).Today; today == nil || today.Spent != "20000" || today.Left != nil {
		t.Errorf("%s", text)
	}
	// A list without it does not compute it.
	if _, text = adminCall(t, socket, "GET", "/purser/keys"); strings.Contains(text, "today") {
		t.Errorf("%s", text)
	}
}

// Rows of lists, hosts and tasks are there when a policy has set them.
func TestLimitsShowsWhatIsSet(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	id := mustCall(t, 201, "POST", s.url()+"/api-keys", "", `{}`)["id"].(string)
	text := told(t, socket, "limits", id, "--host", "a.example=daily:1", "--task", "nightly=daily:1", "--deny-host", "b.example")
	for _, row := range []string{"max payment", "monthly budget", "doors", "denied hosts", "host a.example", "task nightly"} {
		if !strings.Contains(text, "\n"+row+"  ") {
			t.Errorf("no %q in %s", row, text)
		}
	}
	text += told(t, socket, "limits", id, "--host", "a.example=daily:default", "--task", "nightly=default", "--deny-host", "default")
	for _, row := range []string{"allowed hosts", "allowed payees", "denied payees"} {
		if strings.Contains(text, row) {
			t.Errorf("%q in %s", row, text)
		}
	}
	for _, row := range []string{"denied hosts", "host a.example", "task nightly"} {
		if strings.Count(text, row) != 1 {
			t.Errorf("%q in %s", row, text)
		}
	}
}

// A list without any spending tells how to begin; a part of a list does not.
func TestSpendOfBeginners(t *testing.T) {
	s, socket := bookSite(t)
	key := newKey(t, s.url())
	if text := told(t, socket, "spend"); !strings.Contains(text, "0 events, 0 USDC") || !strings.Contains(text, "\nTo pay for a request: fund a wallet") {
		t.Errorf("%s", text)
	}
	for _, args := range []string{"--host a.example", "--json", "--csv", "--since 2020-01-01 --until 2020-01-01"} {
		if text := told(t, socket, append([]string{"spend"}, strings.Fields(args)...)...); strings.Contains(text, "To pay for a request") {
			t.Errorf("%s: %s", args, text)
		}
	}
	mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(1000, "https://api.example.com/x"))
	if text := told(t, socket, "spend"); !strings.Contains(text, "\n1 event, 0.001 USDC since ") || strings.Contains(text, "To pay for a request") {
		t.Errorf("%s", text)
	}
}

// Payments are listed of one key, page by page and by state.
func TestPaymentsOfAKey(t *testing.T) {
	s, socket := bookSite(t)
	one, two := newKey(t, s.url()), newKey(t, s.url())
	for _, key := range []string{one, two, one, one} {
		mustCall(t, 200, "POST", s.url()+"/v1/pay", key, payBody(1000, "https://api.example.com/x"))
	}
	keys := decode[adminapi.Keys](t, told(t, socket, "keys", "--json")).Keys
	for args, want := range map[string]int{
		"--key " + keys[0].ID: 3, "--key " + keys[1].ID: 1, "--key " + keys[0].ID + " --state settled": 3,
		"--key " + keys[0].ID + " --state open": 0, "--key " + keys[0].ID + " --since 1d": 3, "": 4,
	} {
		list := decode[adminapi.Payments](t, told(t, socket, append([]string{"payments", "--json"}, strings.Fields(args)...)...)).Payments
		if len(list) != want {
			t.Errorf("%s: %d payments", args, len(list))
		}
		for _, p := range list {
			if args != "" && !strings.Contains(args, p.KeyID) {
				t.Errorf("%s: one of %s", args, p.KeyID)
			}
		}
	}
	seen := map[string]bool{}
	for next, pages := "", 0; pages == 0 || next != ""; pages++ {
		_, text := adminCall(t, socket, "GET", "/purser/payments?limit=1&key="+keys[0].ID+"&before="+next)
		page := decode[adminapi.Payments](t, text)
		if len(page.Payments) != 1 || pages > 3 {
			t.Fatalf("%s", text)
		}
		seen[page.Payments[0].ID], next = true, page.Next
	}
	if len(seen) != 3 {
		t.Errorf("%v", seen)
	}
	if code, _ := adminCall(t, socket, "GET", "/purser/payments?key=nobody"); code != 404 {
		t.Errorf("nobody's: %d", code)
	}
}
