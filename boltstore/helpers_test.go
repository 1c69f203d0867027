package boltstore

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

var noon = time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// call is a call that wants to pay 5 units, as large as a usual one.
func call(keyID string) *pay.Begin {
	id := newID()
	five, one := money.New(5), money.New(1)
	n, sum := pay.PendingCounters(keyID)
	limit := func(c pay.Counter, amount money.Amount, release pay.Release) pay.Limit {
		return pay.Limit{Reservation: pay.Reservation{Counter: c, Amount: amount, Release: release}}
	}
	row := &pay.Payment{
		ID: id, KeyID: keyID, Door: policy.DoorProxy, RequestURL: "https://api.example.com/v1/data?id=" + id, Host: "api.example.com",
		Terms:    pay.Terms{Settlement: pay.SettleSeller, Network: "base", Scheme: "exact", Asset: x402.EVMAddress([20]byte{0xa5}), PayTo: x402.EVMAddress([20]byte{0x70}), Amount: five},
		Currency: "USDC", WalletID: "w", Created: noon, State: pay.Open,
		Fingerprint: pay.HashOf("f", id), Identity: pay.HashOf("i", id),
		Offer: x402.Offer{
			Version: 2,
			Accepted: json.RawMessage(`{"scheme":"exact","network":"eip155:8453","amount":"5","asset":"0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",` +
				`"payTo":"0x209693Bc6afc0C5328bA36FaF03C514EF312287C","maxTimeoutSeconds":60,"extra":{"name":"USD Coin","version":"2"}}`),
			Resource: json.RawMessage(`{"url":"https://api.example.com/v1/data","description":"data","mimeType":"application/json"}`),
		},
		Authorization: x402.Authorization{
			From: x402.EVMAddress([20]byte{1}), To: x402.EVMAddress([20]byte{0x70}), Value: five,
			ValidBefore: uint64(noon.Add(time.Minute).Unix()), Nonce: x402.Nonce(pay.HashOf(id)),
		},
	}
	return &pay.Begin{
		Now: noon, Owner: "node",
		CallIdentity: pay.CallIdentity{KeyID: keyID, Fingerprint: row.Fingerprint, Identity: row.Identity},
		Judgement:    pay.Judgement{MaxUnanswered: 20, Place: limit(pay.PlaceCounter("key/"+keyID, noon), one, pay.ReleasePlace)},
		Proposal: pay.Proposal{New: row, Limits: []pay.Limit{
			limit(n, one, pay.ReleasePending), limit(sum, five, pay.ReleasePending),
			limit(pay.DailyCounter(keyID, "USDC", noon), five, pay.ReleaseBudget),
		}},
	}
}

// begun journals a payment.
func begun(t testing.TB, d *DB, keyID string) *pay.Payment {
	t.Helper()
	b, err := d.Begin(t.Context(), call(keyID))
	if err != nil {
		t.Fatal(err)
	}
	return b.Payment
}

// held asks for an approval.
func held(t testing.TB, d *DB, keyID string) {
	t.Helper()
	b := call(keyID)
	b.Policy = &policy.Policy{RequireApprovalAbove: policy.CapOf(money.Amount{})}
	k, err := d.Key(t.Context(), keyID)
	if err != nil {
		t.Fatal(err)
	}
	b.PolicyRevision = k.PolicyRevision
	b.Approval = &pay.Approval{ID: newID(), KeyID: keyID, Terms: b.New.Terms, Purchase: pay.HashOf("purchase"), Created: noon, Expires: noon.Add(time.Hour)}
	if begun, err := d.Begin(t.Context(), b); err != nil || begun.How != pay.Unapproved {
		t.Fatalf("got %d, %v", begun.How, err)
	}
}

// settlement settles a payment and ends its lease.
func settlement(p *pay.Payment) pay.Outcome {
	sig := x402.Signature{1}
	return pay.Outcome{
		PaymentID: p.ID, Fence: p.Lease.Fence, At: noon, Verdict: pay.VerdictSettled, EventID: newID(),
		Signature: &sig, Release: true, Answered: true,
	}
}

func checked(t testing.TB, d *DB) {
	t.Helper()
	if err := d.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantError(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
}

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}
