package wallets

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/e2e/internal/sandboxed"
	"github.com/purserpay/purser/internal/adminapi"
)

// Twenty keys, each of which may spend 1 USDC, draw from one wallet that holds 0.53. They spend exactly
// that, all at once. purser declines what is left over: no seller gets a payment that fails. Each key has two
// workers that buy the same, and say that each call is a purchase.
func TestTwentyKeysOneWallet(t *testing.T) {
	w := newWorld(t)
	const agents, worth = 20, 53
	var keys []string
	var wallet adminapi.CreatedKey
	for i := range agents {
		wallet = sandboxed.Ran[adminapi.CreatedKey](w.World, "keys", "create", "--label", fmt.Sprint("agent-", i), "--daily-budget", "1", "--door", "proxy")
		keys = append(keys, wallet.Key)
	}
	w.Fund(*wallet.Address, worth*price)

	var paid, declined atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	together, ctx := errgroup.WithContext(ctx)
	for _, key := range keys {
		client := w.Client(key)
		for range 2 {
			together.Go(func() error {
				for last := false; !last; {
					last = paid.Load() == worth // once more, which must be declined
					a, err := process.Ask(ctx, client, http.MethodGet, w.weather(), "", "Purser-Again", "new")
					switch {
					case err != nil:
						return err
					case a.Status == http.StatusOK:
						paid.Add(1)
					case a.Status == http.StatusPaymentRequired && a.Header.Get("Purser-Declined") == "insufficient-funds":
						declined.Add(1)
					default:
						return fmt.Errorf("%d, declined %q: %s", a.Status, a.Header.Get("Purser-Declined"), a.Body)
					}
				}
				return nil
			})
		}
	}
	if err := together.Wait(); err != nil {
		t.Errorf("%v; %d were paid, %d declined", err, paid.Load(), declined.Load())
	}
	if have := w.Holds(*wallet.Address).String(); have != "0" || paid.Load() != worth || declined.Load() < agents {
		t.Errorf("%s are left, %d were paid, %d declined", have, paid.Load(), declined.Load())
	}
	for _, state := range []string{"void", "refused", "disputed", "unresolved"} {
		if out := w.Must(w.T, "payments", "--state", state, "--json"); strings.Contains(out, `"id"`) {
			t.Errorf("%s: %s", state, out)
		}
	}
	t.Logf("%d were paid, %d declined", paid.Load(), declined.Load())
	w.End(t)
	w.Check(t)
}
