package caddymodule

import (
	"context"

	"github.com/purserpay/purser/pay"
)

// configured is the actor of what a start makes because the operator has configured it.
var configured = pay.Actor{Kind: pay.ActorConfiguration}

// deploy makes the deployment's own key known and records it as that. Of the keys that were
// it before and still pay, it says how to revoke them.
func (a *App) deploy(ctx context.Context, p *pay.Payer) error {
	key, err := a.ensureKey(p, keyOption, a.settings.key, "deployment")
	if err != nil {
		return err
	}
	if err := p.Deploy(ctx, key); err != nil {
		return keyOption.errorf("%w", err)
	}
	replaced, err := p.Replaced(ctx)
	if err != nil {
		return keyOption.errorf("%w", err)
	}
	for _, k := range replaced {
		a.log.Warn("an earlier PURSER_KEY still pays; if no program needs it any more, revoke it", "key", k.ID, "command", revokeCommand(k.ID))
	}
	return nil
}

// revokeCommand returns the command that revokes a key.
func revokeCommand(id string) string { return "purser keys revoke " + id }
