package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/trouble"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// A health check that prints only what is wrong says what that is, and its exit status how bad.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	health := new(adminapi.HealthStatus)
	stops, soon, look := trouble.Trouble{Effect: trouble.Stops, Says: "the disk is full"}, trouble.Trouble{Effect: trouble.Soon, Says: "no RPC"}, trouble.Trouble{Effect: trouble.Look, Says: "one is held"}
	for _, c := range []struct {
		s      adminapi.Status
		alive  bool
		status int
		says   string
	}{
		{s: adminapi.Status{}, status: 1, says: "purser has not started"},
		{s: adminapi.Status{Health: health, OK: true}},
		{s: adminapi.Status{Health: health}, status: 1, says: "not all is well"},
		{s: adminapi.Status{Health: health, OK: true, Troubles: []trouble.Trouble{look}}},
		{s: adminapi.Status{Health: health, OK: true, Troubles: []trouble.Trouble{soon, look}}, status: 2, says: "no RPC"},
		{s: adminapi.Status{Health: health, Troubles: []trouble.Trouble{stops, soon, look}}, status: 1, says: "the disk is full; no RPC"},
		{s: adminapi.Status{Health: health, Troubles: []trouble.Trouble{stops}}, alive: true},
	} {
		err, status, says := unwell(c.s, c.alive, time.Time{}), 0, ""
		if err != nil {
			status, says = 1, err.Error()
		}
		if exit, is := errors.AsType[*Exit](err); is {
			status = exit.Status
		}
		if status != c.status || says != c.says {
			t.Errorf("%+v: %d %q", c.s, status, says)
		}
	}
}

// A payment of scheme upto shows what has moved, and what could have.
func TestChargedPayment(t *testing.T) {
	t.Parallel()
	p := adminapi.Payment{Amount: "10000", Currency: "USDC"}
	if got := paymentMoney(p); got != "0.01 USDC" {
		t.Errorf("an exact payment shows %q", got)
	}
	p.Charged = "1234"
	var told strings.Builder
	table := newTable(&told)
	writeStory(table, adminapi.Story{Payment: p})
	if err := table.Flush(); err != nil || !strings.Contains(told.String(), "0.001234 USDC") || !strings.Contains(told.String(), "of at most") {
		t.Errorf("%v: %s", err, told.String())
	}
	p.Charged = "10299"
	if got := storyMoney(adminapi.Story{Payment: p}); got != "0.010299 USDC, of this 0.000299 USDC for gas" {
		t.Errorf("with gas: %q", got)
	}
}

func TestReservedText(t *testing.T) {
	t.Parallel()
	s := adminapi.Story{Payment: adminapi.Payment{State: pay.Settled, Currency: "USDC"}}
	for want, r := range map[string]adminapi.Reservation{
		"1 payment of the plan, 2026-11: used":               {Counter: "place/k/2026-11", Amount: "1"},
		"0.01 USDC of the key's spending, 2026-11-22: used":  {Counter: "day/k/USDC/2026-11-22", Amount: "10000"},
		"0.01 USDC of the wallet: held until it was settled": {Counter: "hold/w/USDC", Amount: "10000", Released: true},
		"": {Counter: "pending/sum/k", Amount: "10000", Released: true},
		"0.01 USDC of the task's spending, 2026-11-22: used":    {Counter: "task-day/k/nightly/USDC/2026-11-22", Amount: "10000"},
		"0.01 USDC of the host's spending, 2026-11-22: used":    {Counter: "site-day/k/USDC/2026-11-22/com.example.api:/", Amount: "10000"},
		"1 payment of the minute, 2026-11-22T05:00: given back": {Counter: "minute/k/2026-11-22T05:00", Amount: "1", Released: true},
	} {
		if got := reservationText(s, r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A payment's story can be read aloud: it has no names of counters or files.
func TestStoryInWords(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	s := adminapi.Story{
		Payment: adminapi.Payment{
			ID: "p1", KeyID: "k1", KeyLabel: "research", State: pay.Settled, Door: policy.DoorProxy, Task: "nightly", Host: "api.example.com", Settlement: pay.SettleSeller,
			Network: "base", Amount: "10000", Currency: "USDC", PayTo: "0xpayee", Transaction: "0xab", ValidBefore: at.Add(time.Minute),
		},
		RequestURL: "https://api.example.com/x", Scheme: "exact", Description: "the\nweather", From: "0xfrom", Nonce: "0xn", EventID: "e1", NextCheck: at,
		Steps:    []adminapi.Step{{At: at, What: "journaled, through the door proxy"}, {At: at, What: "settled by transaction 0xab"}},
		Evidence: []string{"signed, and it left"}, Reservations: []adminapi.Reservation{{Counter: "day/k1/USDC/2026-11-22", Amount: "10000"}, {Counter: "pending/n/k1", Amount: "1", Released: true}},
		Limits: []adminapi.Limit{
			{Rule: "per-payment", Limit: "1000000"},
			{Rule: "daily-budget", Limit: "5000000", Spent: "10000", Left: "4990000"},
			{Rule: "task-monthly-budget", Of: "nightly", Limit: "7000000", Spent: "0", Left: "7000000"},
			{Rule: "host-per-payment", Of: "*.example.com", Limit: "20000"},
		},
	}
	var told strings.Builder
	table := newTable(&told)
	writeStory(table, s)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(told.String()), " ")
	for _, part := range []string{
		"api.example.com asked 0.01 USDC on base for https://api.example.com/x", `the seller calls it "the\nweather"`, "the seller sends the transfer",
		"allowed at the proxy for the key research (k1) and its task nightly", "limit of one payment: 1 USDC", "daily budget: 5 USDC, 0.01 of it used and 4.99 left of that day",
		"monthly budget of the task nightly: 7 USDC", "limit of one payment for the host *.example.com: 0.02 USDC",
		"written before anything was signed or sent", "0.01 USDC of the key's spending, 2026-11-22: used", "from 0xfrom, valid until", "settled by transaction 0xab",
		"signed, and it left", "booked as the spend event e1", "transaction 0xab", "purser has not looked yet, and looks again from",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in\n%s", part, told.String())
		}
	}
	for _, part := range []string{"day/", "pending/", "through the door", "to do"} {
		if strings.Contains(text, part) {
			t.Errorf("%q is in\n%s", part, told.String())
		}
	}
}
