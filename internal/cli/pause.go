package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
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

    $ purser keys pause research --reason 'pays too much'
    $ purser keys resume research`

const keysRevokeHelp = `
Revokes a key for ever: it resolves nowhere any more. Payments that it has made are still
recovered, and you still see them, the key and its wallets. What its wallets hold stays
there. There is one question, which --yes answers.

    $ purser keys revoke 0199… --yes`

func (env *Env) pauseCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().String("reason", "", "why; callers are told")
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, func(c *cobra.Command, _ []string) error {
		reason, err := c.Flags().GetString("reason")
		if err == nil && strings.TrimSpace(reason) == "" {
			err = errors.New("--reason: say why, in one line; callers are told")
		}
		if err != nil {
			return err
		}
		return env.tellPause(c, "/purser/pause", adminapi.NewPause{Reason: reason})
	})
}

func (env *Env) resumeCommand(c *cobra.Command) {
	adminFlag(c)
	c.Flags().Bool("json", false, "print JSON")
	c.Args = cobra.NoArgs
	Run(c, func(c *cobra.Command, _ []string) error { return env.tellPause(c, "/purser/resume", nil) })
}

func (env *Env) tellPause(c *cobra.Command, path string, body any) error {
	asJSON, err1 := c.Flags().GetBool("json")
	client, err2 := env.adminOf(c)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var now adminapi.PauseState
	if err := client.call(c.Context(), http.MethodPost, path, body, &now); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), now)
	}
	t := newTable(c.OutOrStdout())
	t.row("everything", stateText(now.Paused, time.Time{}))
	return t.flush()
}

// stateText is whether a key, or everything, pays, for people.
func stateText(p *adminapi.Pause, revoked time.Time) string {
	switch {
	case !revoked.IsZero():
		return "revoked since " + revoked.UTC().Format(time.RFC3339)
	case p == nil:
		return "pays"
	}
	text := "paused since " + p.Since.UTC().Format(time.RFC3339)
	if p.By != "" {
		text += " by " + p.By
	}
	if p.Reason != "" {
		text += ": " + p.Reason
	}
	return text
}

// state is the key's in a word.
func keyState(k adminapi.Key) string {
	switch {
	case !k.Revoked.IsZero():
		return "revoked"
	case k.Paused != nil:
		return "paused"
	}
	return "pays"
}

// keyStopCommands makes the commands of 'purser keys' that pause, resume and revoke.
func (env *Env) keyStopCommands() []*cobra.Command {
	pause := &cobra.Command{Use: "pause KEY", Short: "Stops new payments of a key", Long: keysPauseHelp}
	pause.Flags().String("reason", "", "why; callers are told")
	resume := &cobra.Command{Use: "resume KEY", Short: "Lets a paused key pay again", Long: keysPauseHelp}
	revoke := &cobra.Command{Use: "revoke KEY", Short: "Revokes a key for ever", Long: keysRevokeHelp}
	revoke.Flags().BoolP("yes", "y", false, "do not ask")
	list := []*cobra.Command{pause, resume, revoke}
	for i, do := range []pay.Stop{pay.StopPause, pay.StopResume, pay.StopRevoke} {
		c := list[i]
		adminFlag(c)
		c.Flags().Bool("json", false, "print JSON")
		c.Args = cobra.ExactArgs(1)
		Run(c, func(c *cobra.Command, args []string) error { return env.runStopKey(c, args[0], do) })
		c.ValidArgsFunction = oneID(env.keyIDs)
	}
	return list
}

func (env *Env) runStopKey(c *cobra.Command, name string, do pay.Stop) error {
	asJSON, err1 := c.Flags().GetBool("json")
	client, err2 := env.adminOf(c)
	if err := errors.Join(err1, err2, checkID("KEY", name)); err != nil {
		return err
	}
	path := "/purser/keys/" + url.PathEscape(name)
	var body any
	switch do {
	case pay.StopPause:
		reason, err := c.Flags().GetString("reason")
		if err != nil {
			return err
		}
		body = adminapi.NewPause{Reason: reason}
	case pay.StopResume:
	case pay.StopRevoke:
		var k adminapi.Key
		if err := client.call(c.Context(), http.MethodGet, path, nil, &k); err != nil {
			return err
		}
		if err := confirmRevoke(c, k); err != nil {
			return err
		}
		path = "/purser/keys/" + k.ID // the one that was confirmed
	}
	var k adminapi.Key
	if err := client.call(c.Context(), http.MethodPost, path+"/"+string(do), body, &k); err != nil {
		return err
	}
	if asJSON {
		return printJSON(c.OutOrStdout(), k)
	}
	t := newTable(c.OutOrStdout())
	t.row("key", k.ID)
	t.row("label", orDash(k.Label))
	t.row("state", stateText(k.Paused, k.Revoked))
	return t.flush()
}

// confirmRevoke asks whether a key is to be revoked, unless --yes has said so.
func confirmRevoke(c *cobra.Command, k adminapi.Key) error {
	yes, err := c.Flags().GetBool("yes")
	if err != nil || yes || !k.Revoked.IsZero() {
		return err
	}
	_, _ = fmt.Fprintf(c.ErrOrStderr(), "Revoke %s (%s) for ever? Programs that have it cannot pay any more. Type yes: ", label(k.ID), label(orDash(k.Label)))
	answer, err := bufio.NewReader(io.LimitReader(c.InOrStdin(), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was revoked; --yes answers the question")
	}
	return nil
}
