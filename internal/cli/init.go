package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/atomicfile"
)

const initHelp = `
Sets purser up in this folder: asks six questions, each with an answer that Enter takes,
writes a Caddyfile and purser.env, and makes the first key with a wallet. It says which
address to fund and what to run next.

    $ purser init
    $ purser init --yes
    $ purser init --yes --rpc https://rpc.example.com/v2/KEY --max-payment 0.1 --hosts api.example.com

What a flag says is not asked for. The Caddyfile is the one that purser is shipped with, with
your address and limits in it. purser.env, which only you may read, has the URLs, because
those often hold a key. All commands read it in this folder.

The key is the one that 'purser exec' pays with. It can pay through the proxy only, and is
kept in the database, encrypted (in PURSER_DATA_DIR, else ./purser-data). While a purser runs, it is
asked to make the key, else its database is opened here. Master key, store and wallets are
those of the environment, as for 'purser run'.

A ? instead of an answer explains the question. Where no RPC is named, a public one of Base
(https://mainnet.base.org) or Base Sepolia (https://sepolia.base.org) is proposed, and taken by
--yes: --rpc none does without. One of your own provider is better: public ones are slow at
times, and bound how often they are asked. The RPC is asked for its chain, for two seconds at
most; one that does not answer is kept all the same.

Nothing is written before all questions are answered. Where there is a Caddyfile or a
purser.env already, nothing is done without --force, which writes these two anew, from the
answers, and leaves key, wallet and books as they are. The exit status is 0 if all is set
up, 130 if the questions were not answered to the end, else 1.`

// The files that init writes.
const (
	initCaddyfile = "Caddyfile"
	initEnvFile   = "purser.env"
	// initEnvMode: URLs of RPCs and facilitators often hold a key.
	initEnvMode       = 0o600
	initCaddyfileMode = 0o644
)

// interrupted is the exit status after Ctrl-C, as shells have it.
const interrupted = 130

func (env *Env) initCommand(c *cobra.Command) {
	adminFlag(c)
	given := map[string]*string{}
	for _, q := range initQuestions {
		given[q.flag] = c.Flags().String(q.flag, "", q.usage())
	}
	yes := c.Flags().BoolP("yes", "y", false, "ask nothing: what no flag says is as it is by default")
	dry := dryRunFlag(c)
	force := c.Flags().Bool("force", false, "write over an existing "+initCaddyfile+" and "+initEnvFile)
	Run(c, func(c *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		if err := env.mayInit(*force); err != nil {
			return err
		}
		told, err := env.askAll(ctx, c, given, *yes)
		if errors.Is(err, errGivenUp) {
			fmt.Fprintf(c.ErrOrStderr(), "\n")
			return &Exit{interrupted, err}
		}
		if err != nil {
			return err
		}
		if dry.on {
			if _, err := told.caddyfile(); err != nil {
				return err
			}
			dry.would = "write " + initCaddyfile + " and " + initEnvFile + " in this folder, and make the first key with a wallet, unless it is there"
			return dry.tell(c, jsonForm{})
		}
		// From here on it takes a moment, and is not interrupted.
		return env.setUp(context.WithoutCancel(ctx), c, told)
	})
}

// mayInit refuses to write over files unless it is meant to be.
func (env *Env) mayInit(force bool) error {
	for _, path := range []string{initCaddyfile, initEnvFile} {
		if _, err := os.Lstat(env.path(path)); err == nil && !force {
			return fmt.Errorf("there is a %s in this folder already: --force writes %s and %s anew; keys, wallets and books stay",
				path, initCaddyfile, initEnvFile)
		} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// errGivenUp: the person at the keyboard has left.
var errGivenUp = errors.New("given up; nothing was written (--yes asks nothing)")

func (env *Env) setUp(ctx context.Context, c *cobra.Command, told initAnswers) error {
	caddyfile, err := told.caddyfile()
	if err != nil {
		return err
	}
	first, err := env.firstKey(ctx, c)
	if err != nil {
		return err
	}
	_, missing := os.Lstat(env.path(initEnvFile))
	if err := atomicfile.Write(env.path(initEnvFile), []byte(told.envFile(env.envFileHead())), initEnvMode); err != nil {
		return err
	}
	if err := atomicfile.Write(env.path(initCaddyfile), []byte(typed(c.OutOrStdout(), strings.Replace(caddyfile, "purser run", env.runCommand(), 1))), initCaddyfileMode); err != nil {
		if missing != nil {
			err = errors.Join(err, os.Remove(env.path(initEnvFile)))
		}
		return err
	}
	return speak(c, "%s", first.next(ctx, env, told))
}

type initAnswers map[string]string // by flag

func (env *Env) askAll(ctx context.Context, c *cobra.Command, given map[string]*string, yes bool) (initAnswers, error) {
	told := initAnswers{}
	for _, q := range initQuestions { // a wrong flag is told before anything is asked
		switch changed := c.Flags().Changed(q.flag); {
		case changed:
			v, err := q.read(*given[q.flag])
			if err != nil {
				return nil, fmt.Errorf("--%s: %w", q.flag, err)
			}
			told[q.flag] = v
		case yes:
			told[q.flag] = q.enter(env)
		}
	}
	hint := initHint
	lines := readLines(c.InOrStdin())
	for i, q := range initQuestions {
		lead := "--" + q.flag + ": "
		if _, known := told[q.flag]; !known {
			lead = "    "
			_ = speak(c, "%s%d/%d %s\n", hint, i+1, len(initQuestions), q.text)
			hint = ""
			v, err := q.ask(ctx, c, lines, q.enter(env))
			if err != nil {
				return nil, err
			}
			told[q.flag] = v
		}
		if q.check == nil {
			continue
		}
		if found := q.check(ctx, env, told); found != "" {
			_ = speak(c, "%s%s\n", lead, label(found))
		}
		if ctx.Err() != nil {
			return nil, errGivenUp
		}
	}
	return told, nil
}

const initHint = "Enter takes what is in brackets, ? explains, Ctrl-C leaves everything as it is.\n\n"

func (q initQuestion) ask(ctx context.Context, c *cobra.Command, lines func(context.Context) (string, error), enter string) (string, error) {
	for {
		fmt.Fprintf(c.OutOrStdout(), "    [%s] ", cmp.Or(enter, none))
		line, err := lines(ctx)
		if err != nil {
			return "", err
		}
		answer := strings.ReplaceAll(q.more, "\n", "\n    ")
		switch line = strings.TrimSpace(line); line {
		case "":
			return enter, nil
		case "?":
		default:
			v, err := q.read(line)
			if err == nil {
				return v, nil
			}
			answer = err.Error()
		}
		_ = speak(c, "    %s\n", answer)
	}
}

// readLines reads lines of an input that may never come: what it returns fails with
// errGivenUp at the end of the input and when ctx ends.
func readLines(in io.Reader) func(ctx context.Context) (string, error) {
	lines := bufio.NewScanner(in)
	return func(ctx context.Context) (string, error) {
		// A terminal cannot be waited for together with ctx. A read that still waits when ctx ends
		// is over with the process, which is next.
		got := make(chan bool, 1)
		go func() { got <- lines.Scan() }()
		select {
		case <-ctx.Done():
			return "", errGivenUp
		case more := <-got:
			if more {
				return lines.Text(), nil
			}
			if err := lines.Err(); err != nil {
				return "", fmt.Errorf("reading the answer: %w", err)
			}
			return "", errGivenUp
		}
	}
}
