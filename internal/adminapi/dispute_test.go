package adminapi_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// A signature that could still move money is not given away.
func TestDispute(t *testing.T) {
	w := newWorld(t)
	k := w.key("robbed")
	fresh, old := w.buys(k, 1000, "https://api.example.com/x"), w.leaves(k, time.Hour)[0]
	w.fails(map[string]string{"payments dispute " + fresh: "may still move the money"})
	file := filepath.Join(t.TempDir(), "dispute.json")
	w.run("payments dispute "+old+" --output "+file, "!signature")
	w.fails(map[string]string{"payments dispute " + old + " --output " + file: "is not written over"})
	text, err := os.ReadFile(file)
	w.must(err)
	for _, part := range []string{`"format": "purser-dispute/1"`, `"primaryType": "TransferWithAuthorization"`, `"signature": "0x`, "so purser knows its URL only", "chain_unknown"} {
		if !strings.Contains(string(text), part) {
			t.Errorf("no %s in %s", part, text)
		}
	}
	d := get[adminapi.Dispute](w, "/payments/"+old+"/dispute")
	if d.Payment.ID != old || d.Terms.Amount != "10000" || d.Answer.Delivered || d.Answer.Status != nil || d.Answer.Body != nil ||
		!strings.Contains(d.Answer.Unknown, "the client has sent the request itself") {
		t.Errorf("%+v", d)
	}
	held := must(w.store.Acquire(t.Context(), old, "test", time.Now(), time.Now().Add(time.Minute)))
	_, _, err = w.store.Record(t.Context(), pay.Outcome{PaymentID: old, Fence: held.Lease.Fence, At: time.Now(), Verdict: pay.VerdictVoid, Release: true})
	w.must(err)
	w.fails(map[string]string{"payments dispute " + old: "it is void"})
}
