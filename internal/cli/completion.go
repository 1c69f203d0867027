package cli

import (
	"cmp"
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
)

// A shell that completes a line waits for these.
const (
	completionTime = time.Second
	completionPage = 100
)

// oneOf completes a flag with the values that it can have.
func oneOf(c *cobra.Command, flag string, values ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// ids completes the first argument with the ids in a list and what describes them, if a running
// purser tells them at once.
func ids[T any](env *Env, name string, ask url.Values, row func(T) (id, what string), more ...cobra.Completion) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmp.Or(c.Context(), context.Background()), completionTime)
		defer cancel()
		client, err := env.adminOf(c)
		var rows []T
		if err == nil {
			ask.Set("limit", strconv.Itoa(completionPage))
			rows, _, err = fetchPage[T](ctx, client, name, ask)
		}
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list := more
		for _, v := range rows {
			id, what := row(v)
			list = append(list, cobra.CompletionWithDesc(label(id), label(what)))
		}
		return list, cobra.ShellCompDirectiveNoFileComp
	}
}

func (env *Env) keyIDs() cobra.CompletionFunc {
	row := func(k adminapi.Key) (id, what string) { return k.ID, k.Label }
	return ids(env, "keys", url.Values{}, row, books.ExecLabel)
}

// walletIDs completes ids of wallets: of deleted ones if deleted is "true".
func (env *Env) walletIDs(deleted string) cobra.CompletionFunc {
	return ids(env, "wallets", url.Values{"deleted": {deleted}}, func(w adminapi.Wallet) (id, what string) {
		return w.ID, w.Network + ", " + walletCells(w)[3]
	})
}

func (env *Env) paymentIDs(ask url.Values) cobra.CompletionFunc {
	return ids(env, "payments", ask, func(p adminapi.Payment) (id, what string) {
		return p.ID, paymentLabels(p) + ", " + paymentMoney(p) + ", " + p.Host
	})
}
