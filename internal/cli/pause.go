package cli

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

const pauseHelp = `
Stops new payments of all keys at every door, until 'purser resume'. Callers are refused with
the rule 'paused' and the reason; at the proxy they get the seller's 402. Repeats of payments
that have left are still served, receipts are taken, and everything can be read. A pause stays
in force when purser is started again.

    $ purser pause --reason 'wallet keys are being moved'
    $ purser resume`

const resumeHelp = `
Ends what 'purser pause' began. Keys that were paused themselves stay so: 'purser keys resume'.

    $ purser resume`

const keysPauseHelp = `
Stops new payments of a key at every door, until 'purser keys resume'. Repeats of its payments
that have left are still served, and everything of it can be read.

With --host it is about one host: the key goes on paying others. purser does that by itself
after PURSER_PAUSE_HOST_AFTER payments in a row that the host took and delivered nothing for.

    $ purser keys pause research --reason 'pays too much'
    $ purser keys resume research
    $ purser keys resume research --host api.example.com`

const keysRevokeHelp = `
Revokes a key for ever: it resolves nowhere any more. Payments that it has made are still
recovered, and you still see them, the key and its wallets. What its wallets hold stays
there until 'purser wallets withdraw'. There is one question, which --yes answers.

    $ purser keys revoke 0199… --yes`

const keysEndOverlapHelp = `
Ends the time in which the secret before the present one works: see 'purser keys reissue --overlap'.
Programs that have it can neither pay nor read from now on. The present one goes on.

    $ purser keys end-overlap research`

func (env *Env) pauseCommand(c *cobra.Command) {
	a := env.asks(c)
	reason := a.reasonFlag()
	a.changes("stop new payments of all keys")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error {
		if strings.TrimSpace(*reason) == "" {
			return errors.New("--reason: say why, in one line; callers are told")
		}
		return tell(a, http.MethodPost, "/purser/pause", adminapi.NewPause{Reason: *reason}, writePause)
	})
}

func (env *Env) resumeCommand(c *cobra.Command) {
	a := env.asks(c)
	a.changes("let payments of all keys begin again")
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error { return tell(a, http.MethodPost, "/purser/resume", nil, writePause) })
}

const reasonUsage = "why; callers are told"

func (a *asking) reasonFlag() *string { return a.Flags().String("reason", "", reasonUsage) }

func writePause(t *table, now adminapi.PauseState) {
	t.row("everything", stateText(now.Paused, time.Time{}))
}

func stateText(p *adminapi.Pause, revoked time.Time) string {
	switch {
	case !revoked.IsZero():
		return "revoked since " + when(revoked)
	case p == nil:
		return "pays"
	}
	text := "paused since " + when(p.Since)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// pausedHosts writes the hosts that a key pays nothing.
func pausedHosts(t *table, k adminapi.Key) {
	for _, host := range slices.Sorted(maps.Keys(k.PausedHosts)) {
		t.row("host "+host, stateText(k.PausedHosts[host], time.Time{}))
	}
}

// keyStateText tells whether a key pays, and until when its earlier secret works.
func keyStateText(k adminapi.Key) string {
	text := stateText(k.Paused, k.Revoked)
	if !k.EarlierUntil.IsZero() {
		text += "; the old secret works until " + when(k.EarlierUntil)
	}
	return text
}

func keyState(k adminapi.Key) string {
	state, _, _ := strings.Cut(stateText(k.Paused, k.Revoked), " ")
	if !k.EarlierUntil.IsZero() {
		state += ", 2 secrets"
	}
	return state
}

func keyPath(name string) string { return "/purser/keys/" + url.PathEscape(name) }

func stopKeyCommands(keys *asking) {
	for _, stop := range []struct {
		do                 pay.Stop
		short, long, would string
	}{
		{pay.StopPause, "Stops new payments of a key", keysPauseHelp, "stop new payments of the key {}"},
		{pay.StopResume, "Lets a paused key pay again", keysPauseHelp, "let the key {} pay again"},
		{pay.StopRevoke, "Revokes a key for ever", keysRevokeHelp, "revoke the key {} for ever"},
		{pay.StopOverlap, "Stops the old secret of a key that was reissued with an overlap", keysEndOverlapHelp, "stop the old secret of the key {}"},
	} {
		a := keys.sub(string(stop.do)+" KEY", stop.short, stop.long, cobra.ExactArgs(1))
		a.changes(stop.would)
		a.jsonFlag(printsJSON)
		a.ValidArgsFunction = a.env.keyIDs()
		var body adminapi.NewStop
		var yes *bool
		switch stop.do {
		case pay.StopPause:
			a.Flags().StringVar(&body.Reason, "reason", "", reasonUsage)
			a.Flags().StringVar(&body.Host, "host", "", "the host that the key pays nothing more, such as api.example.com")
		case pay.StopResume:
			a.Flags().StringVar(&body.Host, "host", "", "the host that the key pays again")
		case pay.StopOverlap:
		case pay.StopRevoke:
			yes = a.yesFlag()
		}
		a.runs(func(args []string) error {
			if err := checkID("KEY", args[0]); err != nil {
				return err
			}
			path := keyPath(args[0])
			if stop.do == pay.StopRevoke {
				k, err := a.keyNamed(args[0])
				if err != nil {
					return err
				}
				if !*yes && k.Revoked.IsZero() {
					question := fmt.Sprintf("Revoke %s (%s) for ever? Programs that have it cannot pay any more.", k.ID, orDash(k.Label))
					if err := a.confirm(question, "nothing was revoked"); err != nil {
						return err
					}
				}
				path = keyPath(k.ID) // the one that was confirmed
			}
			return tell(a, http.MethodPost, path+"/"+string(stop.do), body, func(t *table, k adminapi.Key) {
				t.row("key", k.ID)
				t.row("label", orDash(k.Label))
				t.row("state", keyStateText(k))
				if _, paused := k.PausedHosts[body.Host]; body.Host != "" && !paused {
					t.row("host "+body.Host, "is paid again")
				}
				pausedHosts(t, k)
			})
		})
	}
}
