package adminapi

import (
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// The story of a payment is in order, and says what is known and has no time.
func TestStory(t *testing.T) {
	t.Parallel()
	at := func(minutes int) time.Time { return time.Date(2026, 11, 15, 12, minutes, 0, 0, time.UTC) }
	p := &pay.Payment{
		ID: "p1", Door: policy.DoorProxy, Created: at(0), Closed: at(9), State: pay.Settled, Transaction: "0xab", Signature: &x402.Signature{},
		Notes:      []pay.Note{{At: at(12), Text: "the chain has another transaction"}, {At: at(1), Text: "no answer: timeout"}},
		Resolution: &pay.Resolution{At: at(7), As: pay.Void, Reason: "nothing came", By: "ann"}, Answered: true, Confirmed: true,
	}
	var lines []string
	story := storyOf(p, at(20))
	for _, step := range story.Steps {
		lines = append(lines, step.At.Format(time.RFC3339)+" "+step.What)
	}
	text, from := strings.Join(append(lines, story.Evidence...), "\n"), 0
	for _, part := range []string{
		"2026-11-15T12:00:00Z", "journaled, through the door proxy", "12:01:00Z", "no answer: timeout", "12:07:00Z", "ann", "void: nothing came",
		"12:09:00Z", "settled by transaction 0xab", "12:12:00Z", "another transaction",
		"signed, and it left", "the caller got its answer", "the chain has it for good",
	} {
		i := strings.Index(text[from:], part)
		if i < 0 {
			t.Fatalf("%q is missing, or too early, in\n%s", part, text)
		}
		from += i + len(part)
	}
}

// A signed receipt is in the story and in the archive, with the word on its signature.
func TestSignedReceiptIsShown(t *testing.T) {
	t.Parallel()
	for receipt, verified := range map[string]bool{
		`{"format":"eip712","payload":{},"signature":"0x00"}`: true,
		`{"format":"jws","signature":"e30.e30.e30"}`:          false,
	} {
		p := &pay.Payment{ID: "p1", State: pay.Settled, SignedReceipt: []byte(receipt)}
		for _, shown := range []*SignedReceipt{storyOf(p, time.Now()).SignedReceipt, archived(pay.ClosedPayment{Payment: p}, time.Now()).SignedReceipt} {
			if shown == nil || string(shown.Receipt) != receipt || shown.Verified != verified {
				t.Errorf("%s: %+v", receipt, shown)
			}
		}
	}
	if shown := storyOf(&pay.Payment{}, time.Now()).SignedReceipt; shown != nil {
		t.Errorf("without one: %+v", shown)
	}
}
