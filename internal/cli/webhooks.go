package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/notices"
)

const webhooksHelp = `
Shows where purser sends notices: webhooks, chats and mail, with the last delivery, the notices
that wait, and what the receiver said when it did not take one. PURSER_WEBHOOKS and
PURSER_SMTP_URL set them up. A name is the host and the beginning of a hash, because the address
is a secret.

    $ purser webhooks
    $ purser webhooks list --json
    $ purser webhooks test`

const webhooksTestHelp = `
Sends a test notice now, to all destinations or to the one that you name, and says what each
receiver answered. It fails if one of them did not take it. A destination that had answered 410,
and is left alone since, gets notices again once it takes the test. The beginning of a name is
enough.

    $ purser webhooks test
    $ purser webhooks test hooks.slack.com`

const webhooksReplayHelp = `
Sends notices again to one destination, from a time or a number on. Each has the id that it had
before, so that a receiver can drop those that it knows. purser keeps the last 10,000 notices.

    $ purser webhooks replay hooks.example.com --since 2h
    $ purser webhooks replay hooks.example.com --from 118`

const webhooksEventsHelp = `
Lists the notices, newest first, with their numbers: also those of kinds that are not sent.

    $ purser webhooks events
    $ purser webhooks events --limit 5 --json`

func (env *Env) webhooksCommand(c *cobra.Command) {
	a := env.asks(c)
	lists := func(a *asking) {
		a.jsonFlag(printsJSON)
		a.runs(func([]string) error { return tell(a, http.MethodGet, "/purser/webhooks", nil, writeWebhooks) })
	}
	lists(a)
	lists(a.list("Lists destinations, as 'purser webhooks' does"))

	test := a.sub("test [NAME]", "Sends a test notice now", webhooksTestHelp, cobra.MaximumNArgs(1))
	test.changes("send a test notice now")
	test.jsonFlag(printsJSON)
	test.runs(func(args []string) error {
		var want adminapi.TestWebhooks
		if len(args) > 0 {
			want.Name = args[0]
		}
		var said adminapi.TestedWebhooks
		err := test.client.call(test.Context(), http.MethodPost, "/purser/webhooks/test", want, &said)
		if err == nil {
			err = show(test.OutOrStdout(), test.json, said, writeTested)
		}
		for _, w := range said.Tested {
			if err == nil && !w.OK {
				err = fmt.Errorf("%s did not take the test", w.Name)
			}
		}
		return err
	})

	replay := a.sub("replay NAME", "Sends notices again", webhooksReplayHelp, cobra.ExactArgs(1))
	since := replay.Flags().String("since", "", "from this long ago on: 90m, 2h, 3d")
	from := replay.Flags().Uint64("from", 0, "from this number on")
	replay.changes("send notices again to {}")
	replay.jsonFlag(printsJSON)
	replay.runs(func(args []string) error {
		want := adminapi.ReplayWebhook{From: *from}
		if (*since == "") == (*from == 0) {
			return errors.New("name one of --since and --from")
		}
		if *since != "" {
			ago, err := readSpan("since", *since)
			if err != nil {
				return err
			}
			want.Since = env.Now().Add(-ago).UTC()
		}
		return tell(replay, http.MethodPost, "/purser/webhooks/"+url.PathEscape(args[0])+"/replay", want, func(t *table, done adminapi.ReplayedWebhook) {
			t.row("to be sent", strconv.FormatUint(done.Waiting, 10))
		})
	})

	events := a.sub("events", "Lists notices", webhooksEventsHelp, cobra.NoArgs)
	events.limitFlag(adminapi.DefaultPage)
	events.jsonFlag(printsJSON)
	events.runs(func([]string) error {
		return listing[adminapi.Notice]{name: "notices", cursor: "before", columns: noticeColumns, cells: noticeCells}.print(events)
	})
}

// readSpan reads a flag that is a time such as 90m, 2h or 3d.
func readSpan(flag, text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if days, isDays := days(text); isDays {
		d, err = days, nil
	}
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--%s %q is not a time such as 90m, 2h or 3d", flag, text)
	}
	return d, nil
}

// days reads a number of days, such as 3d.
func days(text string) (time.Duration, bool) {
	if len(text) < 2 || text[len(text)-1] != 'd' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 16)
	return time.Duration(n) * 24 * time.Hour, err == nil
}

func writeWebhooks(t *table, all adminapi.Webhooks) {
	if len(all.Webhooks) == 0 {
		t.row("no notices are sent: PURSER_WEBHOOKS and PURSER_SMTP_URL are not set")
		return
	}
	t.row("NAME", "FORMAT", "STATE", "WAITING", "DELIVERED (UTC)", "LAST ERROR")
	for _, w := range all.Webhooks {
		t.row(w.Name, string(w.Format), webhookState(w), strconv.FormatUint(w.Waiting, 10), momentText(w.Delivered), webhookError(w))
	}
}

func webhookState(w notices.State) string {
	switch {
	case w.Stopped:
		return "stopped: it answered 410"
	case w.Tries > 0 && w.Next != nil:
		return fmt.Sprintf("fails, next try %s", when(*w.Next))
	case w.Delivered == nil:
		return "nothing sent yet"
	}
	return "delivers"
}

func webhookError(w notices.State) string {
	if w.Failed == nil {
		return unlimited
	}
	text := when(*w.Failed) + ": " + cmp.Or(w.Error, "no answer")
	if w.GivenUp > 0 {
		text += fmt.Sprintf(" (%d given up)", w.GivenUp)
	}
	return text
}

func momentText(t *time.Time) string {
	if t == nil {
		return unlimited
	}
	return when(*t)
}

func writeTested(t *table, all adminapi.TestedWebhooks) {
	t.row("NAME", "TEST", "ANSWER", "SECONDS")
	for _, w := range all.Tested {
		verdict := "taken"
		if !w.OK {
			verdict = "not taken"
		}
		t.row(w.Name, verdict, w.Answer, strconv.FormatFloat(w.Seconds, 'f', 2, 64))
	}
}

var noticeColumns = []column{
	{head: "NUMBER"},
	{head: "WHEN (UTC)", holds: timeCell},
	{head: "KIND"},
	{head: "NOTICE", holds: textCell},
}

func noticeCells(n adminapi.Notice) []string {
	return []string{strconv.FormatUint(n.Number, 10), when(n.At), string(n.Kind), n.Title}
}
