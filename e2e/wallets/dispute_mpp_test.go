package wallets

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/sandbox"
)

// The dispute file of a payment by MPP shows that the wallet has signed for the seller's own challenge.
func TestDisputeOfMPP(t *testing.T) {
	t.Parallel()
	verifier := process.Verifier(t, "../..")
	clock := process.NewClock(t)
	money, err := sandbox.Start(t.Context(), sandbox.Options{Now: clock.Now})
	process.CloseAtEnd(t, money, err)
	w := &world{sandboxed.On(t, money, process.Failpoints, clock.Setting())}
	key := sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create")
	w.Fund(*key.Address, 10*price)
	ids := map[string]string{}
	for _, play := range []string{"weather", "newer"} { // the older and the newer nonce
		a, err := process.Ask(t.Context(), w.Client(key.Key), http.MethodGet, money.SellerDirectURL()+"/mpp/"+play, "")
		if err != nil || a.Status != http.StatusOK {
			t.Fatalf("%s: %v, %+v", play, err, a)
		}
		ids[play] = a.Header.Get("Purser-Payment")
	}
	clock.Forward(t, 10*time.Minute)
	for play, id := range ids {
		file := filepath.Join(t.TempDir(), "dispute.json")
		w.Must(t, "payments", "dispute", id, "--output", file)
		if out, err := verifier(file, "--rpc", money.RPCURL()); err != nil || !strings.Contains(out, "\nok     the nonce is made of the challenge ") {
			t.Errorf("%s: %v\n%s", play, err, out)
		}
		text, err := os.ReadFile(file) //nolint:gosec // the test's own
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func(d *adminapi.Dispute, challenge map[string]any){
			"another challenge": func(_ *adminapi.Dispute, challenge map[string]any) { challenge["id"] = "another" },
			"another realm":     func(_ *adminapi.Dispute, challenge map[string]any) { challenge["realm"] = "another" },
			"another request":   func(_ *adminapi.Dispute, challenge map[string]any) { challenge["request"] = "e30" },
			"another payee":     func(d *adminapi.Dispute, _ map[string]any) { d.Terms.PayTo = *key.Address },
		} {
			var (
				d        adminapi.Dispute
				accepted map[string]any
			)
			if err := json.Unmarshal(text, &d); err != nil || d.Payment.Protocol != "mpp" || d.Payment.Rail != "mpp-evm" {
				t.Fatalf("%v %+v", err, d.Payment)
			}
			if err := json.Unmarshal(d.Offered.Accepted, &accepted); err != nil {
				t.Fatal(err)
			}
			challenge, _ := accepted["challenge"].(map[string]any)
			change(&d, challenge)
			if d.Offered.Accepted, err = json.Marshal(accepted); err != nil {
				t.Fatal(err)
			}
			changed, err := json.Marshal(d)
			if err == nil {
				err = os.WriteFile(file, changed, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := verifier(file); err == nil || !strings.Contains(out, "FAILED") {
				t.Errorf("%s, with %s: %v\n%s", play, name, err, out)
			}
		}
	}
}
