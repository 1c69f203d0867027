package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
)

const rotateHelp = `
Shows which keys guard the secrets of a running purser, and replaces them one by one, while
payments go on. No API key changes, and no wallet moves.

    $ purser rotate
    $ purser rotate data-key
    $ purser rotate master-key
    $ purser rotate authority`

const rotateDataHelp = `
Makes a new data key, and seals all secrets of the database with it: wallet keys, claimed API
keys, accounts and sessions. The old data key is then dropped. The command waits until that is
done; purser goes on without it, also after a restart.

Room in the file that is free now may still have secrets under the old data key, until it is
used again. 'purser compact' leaves nothing of them.

    $ purser rotate data-key`

const rotateMasterHelp = `
Replaces the master key, which the keys in the database are wrapped with.

Where purser keeps it in a file of the data directory, purser does it all, at once:

    $ purser rotate master-key

Where it is configured (PURSER_MASTER_KEY or PURSER_MASTER_KEY_FILE), make the next one, tell
purser of it, put it in the place of the old one, and start purser again. Until that start
either of the two opens the database; from then on only the new one does.

    $ openssl rand -hex 32 > next.key
    $ purser rotate master-key --new-key-file next.key

Backups that were taken before need the old master key: keep it as long as you keep them.`

const rotateAuthorityHelp = `
Replaces the root certificate with which purser opens HTTPS. First it makes the next root, and
gives both to programs: in ca.crt, at /ca.crt, and by 'purser env' and 'purser exec'. The old
one still signs.

    $ purser rotate authority

Start the programs again that have the old root only. Then let the next root sign. The old one
and its keys are removed:

    $ purser rotate authority --finish`

const rotatePoll = 200 * time.Millisecond

func (env *Env) rotateCommand(c *cobra.Command) {
	a := env.asks(c)
	a.jsonFlag(printsJSON)
	a.runs(func([]string) error { return tell(a, http.MethodGet, "/purser/rotation", nil, writeRotation) })

	data := a.sub("data-key", "Seals all secrets with a new data key", rotateDataHelp, cobra.NoArgs)
	data.changes("seal all secrets with a new data key")
	data.jsonFlag(printsJSON)
	data.runs(func([]string) error { return data.rotateDataKey() })

	master := a.sub("master-key", "Replaces the master key", rotateMasterHelp, cobra.NoArgs)
	next := master.Flags().String("new-key-file", "", "file with the next master key, where the one in force is configured")
	master.changes("replace the master key")
	master.jsonFlag(printsJSON)
	master.runs(func([]string) error { return master.rotateMasterKey(*next) })

	authority := a.sub("authority", "Replaces the root that opens HTTPS", rotateAuthorityHelp, cobra.NoArgs)
	finish := authority.Flags().Bool("finish", false, "let the next root sign, and remove the old one")
	authority.changes("replace the root that opens HTTPS")
	authority.jsonFlag(printsJSON)
	authority.runs(func([]string) error {
		return tell(authority, http.MethodPost, "/purser/rotation/authority", adminapi.RotateAuthority{Finish: *finish}, writeRotation)
	})
}

// rotateDataKey begins a rotation, and waits for its end.
func (a *asking) rotateDataKey() error {
	var r adminapi.Rotation
	if err := a.client.call(a.Context(), http.MethodPost, "/purser/rotation/data-key", nil, &r); err != nil {
		return err
	}
	line := NewProgress(a.ErrOrStderr())
	for r.OlderDataKeys > 0 && r.Stopped == "" {
		line.Tell(fmt.Sprintf("%d secrets are sealed again", r.SealedAgain))
		select {
		case <-a.Context().Done():
			line.Hide()
			return fmt.Errorf("%w; purser goes on without this command", a.Context().Err())
		case <-time.After(rotatePoll):
		}
		if err := a.client.call(a.Context(), http.MethodGet, "/purser/rotation", nil, &r); err != nil {
			line.Hide()
			return err
		}
	}
	line.Hide()
	if err := show(a.OutOrStdout(), a.json, r, writeRotation); err != nil {
		return err
	}
	if r.Stopped != "" {
		return errors.New(r.Stopped)
	}
	return nil
}

func (a *asking) rotateMasterKey(file string) error {
	var next adminapi.NextMasterKey
	if file != "" {
		text, err := os.ReadFile(a.env.path(file))
		if err != nil {
			return fmt.Errorf("--new-key-file: %w", err)
		}
		if next.NewKey = strings.TrimSpace(string(text)); next.NewKey == "" {
			return fmt.Errorf("--new-key-file: %s is empty", file)
		}
	}
	return tell(a, http.MethodPost, "/purser/rotation/master-key", next, writeRotation)
}

func writeRotation(t *table, r adminapi.Rotation) {
	data := fmt.Sprintf("version %d, the only one", r.DataKey)
	if r.OlderDataKeys > 0 {
		data = fmt.Sprintf("version %d; %d secrets are sealed again, until then %d older ones are kept", r.DataKey, r.SealedAgain, r.OlderDataKeys)
	}
	if r.Stopped != "" {
		data += "; stopped: " + r.Stopped
	}
	t.row("data key", data)
	master := r.MasterKey
	if r.MasterKeyFollows {
		master += "; another one is known too: put it in the place of this one, and start purser again"
	}
	t.row("master key", master)
	switch {
	case r.Authority == nil:
		t.row("root", "none, because nothing is intercepted")
	case r.Authority.Next != "":
		t.row("root", r.Authority.Signing+", which signs until 'purser rotate authority --finish'")
		t.row("next root", r.Authority.Next)
	default:
		t.row("root", r.Authority.Signing+", until "+when(r.Authority.Until))
	}
}
