package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const reconcileHelp = `
Shows whether a purser whose database was restored from a backup, copied or moved pays
again. Such a database does not know what was paid after the backup, or from the other
folder. Purser reads that from the chain and books it, and until it has, it refuses
payments: for seven minutes at least, in which payments from before can still settle. The
exit status is 0 once payments are made, else 1.

    $ purser reconcile --wait

Without an RPC the chain tells nothing, and purser pays again only when you say that it
may:

    $ purser reconcile --accept-risk

What was paid after the backup is then not in the books, does not count against budgets
and monthly limits, and the repeat of a request that was paid may be paid once more,
unless it has the idempotency key that it had before. Your word stays in the record.`

const reconcilePoll = 2 * time.Second

func (env *Env) reconcileCommand(c *cobra.Command) {
	a := env.asks(c)
	wait := c.Flags().Bool("wait", false, "wait until payments are made again")
	accept := c.Flags().Bool("accept-risk", false, "let payments resume without knowing what the chain does not tell")
	a.changes("let payments resume without knowing what the chain does not tell")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		s, err := a.reconcileStatus(http.MethodGet, nil)
		if err != nil {
			return err
		}
		if *accept {
			for _, n := range s.Networks {
				if skips := skippedText(n); skips != "" {
					say(c, "accepted: %s", skips)
				}
			}
			said := adminapi.RiskAcceptance{AcceptRisk: true, By: env.operatorName()}
			if s, err = a.reconcileStatus(http.MethodPost, said); err != nil {
				return err
			}
		}
		if *wait {
			if s, err = a.waitReconciled(s); err != nil {
				return err
			}
		}
		if err := show(c.OutOrStdout(), a.json, s, writeReconcile); err != nil || !s.Pending {
			return err
		}
		return errors.New(waitingText(s, env.Now()))
	})
}

func (a *asking) reconcileStatus(method string, body any) (s adminapi.ReconcileStatus, err error) {
	err = a.client.call(a.Context(), method, "/purser/reconcile", body, &s)
	return s, err
}

// waitReconciled asks until nothing is pending, and says what has changed.
func (a *asking) waitReconciled(s adminapi.ReconcileStatus) (_ adminapi.ReconcileStatus, err error) {
	told := ""
	for s.Pending {
		if text := waitingText(s, a.env.Now()); text != told {
			say(a.Command, "%s", text)
			told = text
		}
		select {
		case <-a.Context().Done():
			return s, a.Context().Err()
		case <-time.After(reconcilePoll):
		}
		if s, err = a.reconcileStatus(http.MethodGet, nil); err != nil {
			return s, err
		}
	}
	return s, nil
}

// skippedText says what accepting the risk leaves unknown.
func skippedText(n adminapi.ReconcileNetwork) string {
	switch {
	case n.Done:
		return ""
	case n.Safe == 0:
		return n.Network + ": what was paid after the backup stays unknown"
	}
	return fmt.Sprintf("%s: what was paid after block %d stays unknown, unless it is read before payments resume (the newest safe block is %d)",
		n.Network, max(n.Next, 1)-1, n.Safe)
}

func waitingText(s adminapi.ReconcileStatus, now time.Time) string {
	for _, n := range s.Networks {
		switch {
		case n.Done || s.Accepted != nil:
		case n.Error != "":
			return n.Network + ": " + n.Error
		case n.Next <= n.Safe:
			return fmt.Sprintf("%s: block %d of %d", n.Network, n.Next, n.Safe)
		case !n.SafeTime.IsZero():
			return fmt.Sprintf("%s: waiting for a safe block of %s", n.Network, when(n.Target))
		}
	}
	if now.Before(s.Until) {
		return "payments resume at " + when(s.Until) + " at the earliest"
	}
	return "payments do not resume yet"
}

func writeReconcile(t *table, s adminapi.ReconcileStatus) {
	if s.Pending {
		writePending(t, s)
	} else {
		_, _ = fmt.Fprintln(t, "nothing to reconcile: payments are made")
	}
}

func writePending(t *table, s adminapi.ReconcileStatus) {
	t.row("payments", "refused: "+s.Reason)
	if s.Copied {
		t.row("copied", "last written "+when(s.Backup))
		t.some("from", s.From)
		t.row("opened", when(s.At))
	} else {
		t.row("backup", when(s.Backup))
		t.row("restored", when(s.At))
	}
	t.row("resumes", "not before "+when(s.Until))
	for _, n := range s.Networks {
		state := fmt.Sprintf("read from block %d to %d of %d", n.First, max(n.Next, 1)-1, n.Safe)
		switch {
		case n.Error != "":
			state = n.Error
		case n.Done:
			state += ", all there is"
		}
		t.row(n.Network, state)
	}
	t.row("booked", fmt.Sprintf("%d payments that the backup does not have", s.Booked))
	for _, text := range s.Strange {
		t.row("not booked", text)
	}
	if more := s.StrangeCount - len(s.Strange); more > 0 {
		t.row("not booked", fmt.Sprintf("and %d more", more))
	}
	if s.Accepted != nil {
		t.row("accepted", fmt.Sprintf("by %s at %s", cmp.Or(s.Accepted.By, "somebody"), when(s.Accepted.At)))
	} else if s.NeedsOperator {
		t.row("needs you", "purser reconcile --accept-risk, see its --help")
	}
}
