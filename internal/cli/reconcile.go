package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const reconcileHelp = `
Shows whether a purser whose database was restored from a backup pays again. Such a
database does not know what was paid after the backup. Purser reads that from the chain
and books it, and until it has, it refuses payments: for seven minutes at least, in which
payments from before the restore can still settle. The exit status is 0 once payments are
made, else 1.

    $ purser reconcile --wait

Without an RPC the chain tells nothing, and purser pays again only when you say that it
may:

    $ purser reconcile --accept-risk

What was paid after the backup is then not in the books, does not count against budgets
and monthly limits, and the repeat of a request that was paid may be paid once more,
unless it has the idempotency key that it had before. Your word stays in the record.`

// reconcilePoll separates the questions of --wait.
const reconcilePoll = 2 * time.Second

func (env *Env) reconcileCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().Bool("wait", false, "wait until payments are made again")
	c.Flags().Bool("accept-risk", false, "let payments resume without knowing what the chain does not tell")
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, env.runReconcile)
}

func (env *Env) runReconcile(c *cobra.Command, _ []string) error {
	wait, err1 := c.Flags().GetBool("wait")
	accept, err2 := c.Flags().GetBool("accept-risk")
	asJSON, err3 := c.Flags().GetBool("json")
	client, err4 := env.adminOf(c)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	s, err := askReconcile(c.Context(), client)
	if err != nil {
		return err
	}
	if accept {
		for _, n := range s.Networks {
			if skips := skippedText(n); skips != "" {
				say(c, "accepted: %s", label(skips))
			}
		}
		said := adminapi.RiskAcceptance{AcceptRisk: true, By: env.operatorName()}
		s = adminapi.ReconcileStatus{}
		if err := client.call(c.Context(), http.MethodPost, "/purser/reconcile", said, &s); err != nil {
			return err
		}
	}
	if wait {
		if s, err = env.waitReconciled(c, client, s); err != nil {
			return err
		}
	}
	if asJSON {
		err = printJSON(c.OutOrStdout(), s)
	} else {
		err = printReconcile(c.OutOrStdout(), s)
	}
	if err == nil && s.Pending {
		err = errors.New(waitingText(s, env.Now()))
	}
	return err
}

func askReconcile(ctx context.Context, client *adminClient) (s adminapi.ReconcileStatus, err error) {
	return s, client.call(ctx, http.MethodGet, "/purser/reconcile", nil, &s)
}

// waitReconciled asks until nothing is pending, and says what has changed.
func (env *Env) waitReconciled(c *cobra.Command, client *adminClient, s adminapi.ReconcileStatus) (adminapi.ReconcileStatus, error) {
	told := ""
	for s.Pending {
		if text := waitingText(s, env.Now()); text != told {
			say(c, "%s", label(text))
			told = text
		}
		select {
		case <-c.Context().Done():
			return s, c.Context().Err()
		case <-time.After(reconcilePoll):
		}
		var err error
		if s, err = askReconcile(c.Context(), client); err != nil {
			return s, err
		}
	}
	return s, nil
}

// skips says what accepting the risk leaves unknown.
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

// waiting says what is being waited for.
func waitingText(s adminapi.ReconcileStatus, now time.Time) string {
	for _, n := range s.Networks {
		switch {
		case n.Done || s.Accepted != nil:
		case n.Error != "":
			return n.Network + ": " + n.Error
		case n.Next <= n.Safe:
			return fmt.Sprintf("%s: block %d of %d", n.Network, n.Next, n.Safe)
		case !n.SafeTime.IsZero():
			return fmt.Sprintf("%s: waiting for a safe block of %s", n.Network, n.Target.UTC().Format(time.RFC3339))
		}
	}
	if now.Before(s.Until) {
		return "payments resume at " + s.Until.UTC().Format(time.RFC3339) + " at the earliest"
	}
	return "payments do not resume yet"
}

func printReconcile(w io.Writer, s adminapi.ReconcileStatus) error {
	if !s.Pending {
		_, err := fmt.Fprintln(w, "nothing to reconcile: payments are made")
		return err
	}
	t := newTable(w)
	reconcileLines(s, func(name, value string) { t.row(name, value) })
	return t.flush()
}

// lines tells the state in names and values.
func reconcileLines(s adminapi.ReconcileStatus, line func(name, value string)) {
	line("payments", "refused: "+s.Reason)
	line("backup", s.Backup.UTC().Format(time.RFC3339))
	line("restored", s.At.UTC().Format(time.RFC3339))
	line("resumes", "not before "+s.Until.UTC().Format(time.RFC3339))
	for _, n := range s.Networks {
		state := fmt.Sprintf("read from block %d to %d of %d", n.First, max(n.Next, 1)-1, n.Safe)
		switch {
		case n.Error != "":
			state = n.Error
		case n.Done:
			state += ", all there is"
		}
		line(n.Network, state)
	}
	line("booked", fmt.Sprintf("%d payments that the backup does not have", s.Booked))
	for _, text := range s.Strange {
		line("not booked", text)
	}
	if more := s.StrangeCount - len(s.Strange); more > 0 {
		line("not booked", fmt.Sprintf("and %d more", more))
	}
	if s.Accepted != nil {
		line("accepted", fmt.Sprintf("by %s at %s", cmp.Or(s.Accepted.By, "somebody"), s.Accepted.At.UTC().Format(time.RFC3339)))
	} else if s.NeedsOperator {
		line("needs you", "purser reconcile --accept-risk, see its --help")
	}
}
