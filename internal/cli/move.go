package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/crate"
	"github.com/purserpay/purser/internal/failpoint"
	"github.com/purserpay/purser/internal/move"
)

const moveHelp = `
Moves purser to another server. The command stops the purser of this folder, packs all that the new
server needs into one folder or tar (database, master key, certificates, Caddyfile, purser.env and
the files of secrets that it names), checks what was packed, and retires this folder: purser refuses
to start here from then on. There is one question, which --yes answers.

    $ purser move --to /mnt/usb/purser.tar
    $ purser move --to /srv/purser

Whoever has the tar owns the wallets. Carry it by ssh, and remove it afterwards. On the new server,
start purser in the unpacked folder: it reads the chain before it pays, for about ten minutes.

If the command is cut off, run it again. At no moment do two folders pay.

    $ purser move --undo

takes this folder back. Do that only if the new purser has never been started and never will be: this
command cannot know that, and two that are started both pay.

PostgreSQL stays where it is: see docs/moving.md.`

// relocation is a move of a folder.
type relocation struct {
	*asking
	mover *mover
	to    string // absolute; "" takes the folder back
	list  packingList
}

func (env *Env) moveCommand(c *cobra.Command) {
	a := env.asks(c)
	dir := env.dataDirFlag(c)
	to := c.Flags().String("to", "", "a folder that is made, or a file that ends in .tar")
	undo := c.Flags().Bool("undo", false, "take a retired folder back")
	yes := a.yesFlag()
	a.dry.flag(c)
	c.Flags().String("config", "", "configuration that is packed, with purser.env beside it (default: "+initCaddyfile+" in this folder)")
	Run(c, func(c *cobra.Command, _ []string) (err error) {
		r := &relocation{asking: a}
		switch {
		case *undo == (*to != ""):
			return errors.New("say where to, --to FOLDER or --to FILE.tar, or --undo")
		case env.Getenv(storeVariable) == storePostgres:
			return errors.New("the books are in PostgreSQL, and stay there: stop purser, copy purser.env, the configuration and the master key, " +
				"and start purser on the new server with the same DATABASE_URL; see docs/moving.md")
		}
		if r.mover, err = env.mover(*dir); err != nil {
			return err
		}
		if *undo && a.dry.on {
			a.dry.would = "take this folder back, if it is retired"
			return a.dry.tell(c, a.json)
		}
		if *undo {
			return r.takeBack(*yes)
		}
		if r.to, err = filepath.Abs(env.path(*to)); err != nil {
			return err
		}
		if r.list, err = env.packingList(flag(c, "config"), *dir, r.mover.path); err != nil {
			return err
		}
		if inside(r.list.data, r.to) {
			return fmt.Errorf("%s is in the data directory, which is what moves", r.to)
		}
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		return r.move(ctx, *yes)
	})
}

func (r *relocation) move(ctx context.Context, yes bool) (err error) {
	running, err := r.running(ctx)
	if err != nil {
		return err
	}
	if !yes || r.dry.on {
		what := "This folder will never pay again; its purser moves to " + r.to + "."
		if running != nil {
			what = fmt.Sprintf("purser (pid %d) will stop. ", running.Process) + what
		}
		if err := r.confirm(what, "nothing was moved"); err != nil {
			return err
		}
	}
	if r.dry.on {
		r.dry.would = fmt.Sprintf("pack %d files and the database into %s, and retire this folder", len(r.list.parts), r.to)
		return r.dry.tell(r.Command, r.json)
	}
	if running != nil {
		if err := r.client.stop(ctx, running.Process); err != nil {
			return err
		}
		say(r.Command, "stopped purser (pid %d)", running.Process)
	}
	from, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	mark, err := from.Mark(ctx)
	switch {
	case err != nil:
		return err
	case mark == nil:
		mark, err = r.pack(ctx, from)
	case mark.Place != r.to:
		err = mark.Refusal()
	}
	if err != nil {
		return err
	}
	failpoint.Here(failpoint.MoveRetired)
	if err := crate.Deliver(r.to, mark.Sum); err != nil {
		return fmt.Errorf("this folder is retired, and what was packed has no name yet: %w; run the command again, or take this folder back with --undo", err)
	}
	failpoint.Here(failpoint.MoveDelivered)
	return r.told(mark)
}

// running asks the purser that serves this database; nil: none does.
func (r *relocation) running(ctx context.Context) (*adminapi.Status, error) {
	var err error
	if r.client, err = r.env.adminOf(r.Command); err != nil {
		return nil, nil //nolint:nilerr // without an endpoint the lock of the file tells
	}
	s := new(adminapi.Status)
	if err := r.client.call(ctx, http.MethodGet, "/purser/status", nil, s); err != nil || s.Store == nil {
		return nil, ctx.Err()
	}
	is, err := os.Stat(r.env.path(s.Store.Path))
	if err != nil {
		return nil, nil //nolint:nilerr // a purser of another machine, or of another folder
	}
	named, err := os.Stat(r.mover.path)
	if err != nil || !os.SameFile(is, named) {
		return nil, err
	}
	return s, nil
}

func (r *relocation) open(ctx context.Context) (*boltstore.Moving, error) {
	from, err := boltstore.OpenSource(ctx, boltstore.Options{Path: r.mover.path, MasterKey: r.mover.master})
	if errors.Is(err, boltstore.ErrLocked) {
		err = fmt.Errorf("%w; if a service manager starts it again, stop it there", err)
	}
	return from, err
}

// pack packs everything and retires the store.
func (r *relocation) pack(ctx context.Context, from *boltstore.Moving) (*move.Mark, error) {
	at := r.env.Now().UTC()
	var report boltstore.Report
	database := crate.Part{Name: r.list.database, Write: func(path string) error {
		if err := from.Copy(ctx, path, at); err != nil {
			return err
		}
		var err error
		if report, err = boltstore.CheckFile(ctx, path, r.mover.master); err == nil {
			err = report.Err()
		}
		return err
	}}
	packed, err := crate.Pack(ctx, r.to, append([]crate.Part{database}, r.list.parts...))
	if err != nil {
		return nil, fmt.Errorf("nothing was moved, and this folder may start again: %w", err)
	}
	a := CheckAnswer{Report: report}
	if _, err := fmt.Fprintf(r.OutOrStdout(), "packed %d files, %s, checked: payments %s, spend events %d, keys %d, wallets %d\n",
		packed.Files, size(packed.Bytes), a.payments(), a.Events, a.Keys, a.Wallets); err != nil {
		return nil, err
	}
	failpoint.Here(failpoint.MovePacked)
	mark := &move.Mark{Role: move.Source, Other: move.Folder, Begun: at, Done: at, Place: r.to, Sum: packed.Sum}
	return mark, from.SetMark(ctx, mark)
}

// told says what is left to do.
func (r *relocation) told(mark *move.Mark) error {
	var lines []string
	say := func(format string, args ...any) { lines = append(lines, label(fmt.Sprintf(format, args...))) }
	say("%s is whole. This folder is retired since %s: purser refuses to start here.", r.to, when(mark.Done))
	for _, note := range r.list.notes {
		say("note: %s", note)
	}
	unpack := "take the folder there"
	if strings.HasSuffix(r.to, crate.Suffix) {
		unpack = "tar xpf " + filepath.Base(r.to)
	}
	say("On the new server: %s, purser start in it, and purser reconcile --wait. It pays once it has read the chain, after some ten minutes.", unpack)
	say("Whoever has %s owns the wallets: remove it, and this folder, once the new purser pays.", filepath.Base(r.to))
	return speak(r.Command, "%s\n", strings.Join(lines, "\n"))
}

// takeBack removes the mark of a retired folder.
func (r *relocation) takeBack(yes bool) (err error) {
	ctx := r.Context()
	from, err := r.open(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	mark, err := from.Mark(ctx)
	switch {
	case err != nil:
		return err
	case mark == nil:
		return errors.New("this folder is not retired: purser starts in it")
	case mark.Place == "":
		return fmt.Errorf("there is no way back: %w", mark.Refusal())
	}
	if !yes {
		question := "Only you know whether purser was ever started from " + mark.Place + ". If it was, or will be, two pursers pay with the same wallets. It never was and never will be?"
		if err := r.confirm(question, "the folder stays retired"); err != nil {
			return err
		}
	}
	if err := from.TakeBack(ctx, mark.Done); err != nil {
		return err
	}
	return speak(r.Command, "This folder is no longer retired. Remove %s. purser starts here again, reads the chain first, and pays after some ten minutes.\n", label(mark.Place))
}
