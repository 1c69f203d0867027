package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/internal/plainjson"
	"github.com/purserpay/purser/policy"
)

const tailHelp = `
Shows payments and declines of a running purser as they come, a line for each: when a payment
is journaled (open), when its outcome is known, and when a request is not paid, with the
reason. Times are those of UTC. It goes on over reloads, and ends with Ctrl-C or when purser
stops.

    $ purser tail
    $ purser tail --declined
    $ purser tail --key research --host api.example.com --task nightly
    $ purser tail --state settled --state disputed --json

--json prints an object on each line. Amounts are in the smallest unit there.`

// Times of a tail.
const (
	tailTime  = 15 * time.Second       // bounds a question; purser answers after 5 s without news
	tailPause = 300 * time.Millisecond // before a question that follows one without an answer
	tailTries = 10                     // such questions in a row
)

func (env *Env) tailCommand(c *cobra.Command) {
	a := env.asks(c)
	a.keyFlag("only those of this key: its id, its label or exec")
	host := a.Flags().String("host", "", "only those for this host")
	task := a.Flags().String("task", "", "only those with this task label")
	states := a.Flags().StringSlice("state", nil, "only these: "+strings.Join(adminapi.TailLabels, ", ")+"; repeatable")
	oneOf(c, "state", adminapi.TailLabels...)
	declined := a.Flags().Bool("declined", false, "only requests that were not paid: --state declined")
	a.jsonFlag("print a JSON object on each line, with amounts in the smallest unit")
	a.runs(func([]string) error {
		for _, state := range *states {
			if !slices.Contains(adminapi.TailLabels, state) {
				return fmt.Errorf("--state %q is none of %s", state, strings.Join(adminapi.TailLabels, ", "))
			}
		}
		if *declined {
			*states = append(*states, feed.Declined)
		}
		for name, value := range map[string]string{"host": *host, "task": *task, "state": strings.Join(*states, ",")} {
			if value != "" {
				a.ask.Set(name, value)
			}
		}
		return a.tail()
	})
}

// tail prints events until the command is interrupted, or purser stops.
func (a *asking) tail() error {
	ctx, stop := signal.NotifyContext(a.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a.client.client.Timeout = max(a.client.client.Timeout, tailTime)
	at, err := a.tailPage(ctx, nil)
	if err != nil {
		return err
	}
	out := &tailLines{w: a.OutOrStdout(), json: a.json, widths: [...]int{8, 10, 6, 10, 20, 10}}
	if err := out.begin(); err != nil {
		return err
	}
	for unanswered := 0; ; {
		page, err := a.tailPage(ctx, at)
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case err != nil && at.Ended:
			say(a.Command, "purser has stopped")
			return nil
		case err != nil:
			if unanswered++; unanswered == tailTries || !errors.Is(err, errNoAnswer) {
				return err
			}
		default:
			unanswered = 0
			if page.Feed != at.Feed {
				say(a.Command, "purser was started again")
			}
			if page.Missed > 0 {
				say(a.Command, "%d events came too fast, and are not shown", page.Missed)
			}
			if err := out.print(page.Events); err != nil {
				return err
			}
			if page.Ended && at.Ended && page.Feed == at.Feed {
				say(a.Command, "purser has stopped")
				return nil
			}
			at = page
		}
		if err != nil || at.Ended {
			select {
			case <-time.After(tailPause):
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// tailPage asks for what comes behind a page; without one, where the feed is.
func (a *asking) tailPage(ctx context.Context, at *adminapi.Tail) (*adminapi.Tail, error) {
	ask := url.Values{}
	for name, values := range a.ask {
		ask[name] = values
	}
	if at != nil {
		ask.Set("feed", at.Feed)
		ask.Set("after", strconv.FormatUint(at.Next, 10))
	}
	var page adminapi.Tail
	err := a.client.call(ctx, http.MethodGet, "/purser/tail?"+ask.Encode(), nil, &page)
	return &page, err
}

// tailLines prints events. Columns get as wide as an event has needed them.
type tailLines struct {
	w      io.Writer
	json   jsonForm
	widths [6]int // as most events need them, or wider
}

func (l *tailLines) begin() error {
	if l.json.on {
		return nil
	}
	return l.line("TIME", "STATE", "USDC", "KEY", "HOST", "TASK", "PAYMENT OR REASON")
}

func (l *tailLines) line(values ...string) error {
	var b strings.Builder
	for i, v := range values {
		v = label(v)
		b.WriteString(v)
		if i < len(l.widths) {
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(v))
			b.WriteString(strings.Repeat(" ", l.widths[i]-utf8.RuneCountInString(v)) + gap)
		}
	}
	_, err := fmt.Fprintln(l.w, strings.TrimRight(b.String(), " "))
	return err
}

func (l *tailLines) print(events []adminapi.TailEvent) error {
	if !l.json.on {
		for _, e := range events {
			if err := l.line(tailCells(e)...); err != nil {
				return err
			}
		}
		return nil
	}
	w := bufio.NewWriter(l.w)
	for _, e := range events {
		text, err := plainjson.Marshal(e)
		if err == nil {
			text, err = chosen[adminapi.TailEvent](l.json, text)
		}
		if err != nil {
			return err
		}
		_, _ = w.Write(append(plainJSON(text), '\n')) // Flush returns the error
	}
	return w.Flush()
}

func tailCells(e adminapi.TailEvent) []string {
	amount, host := unlimited, e.Host
	if e.Amount != nil {
		amount = units(*e.Amount)
	}
	if e.Door == policy.DoorOperator {
		host = "withdrawal"
	}
	what := beginning(e.Payment, len("01a209ac-0c47-7d54"))
	switch {
	case e.State == feed.Declined && e.Detail != "":
		what = e.Reason + ": " + e.Detail
	case e.Reason != "":
		what = strings.TrimPrefix(what+" "+e.Reason, " ")
	}
	return []string{
		e.At.UTC().Format(time.TimeOnly), e.State, amount, orDash(cmp.Or(e.KeyLabel, beginning(e.KeyID, shortID))), orDash(host), orDash(e.Task), what,
	}
}
