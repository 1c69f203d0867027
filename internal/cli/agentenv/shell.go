package agentenv

import (
	"fmt"
	"strings"

	"github.com/purserpay/purser/internal/plainjson"
)

// Shells lists the languages that Format can write.
var Shells = []string{"sh", "fish", "powershell", "json"}

// Format writes the variables as shell commands that set and export them, or as a JSON object.
func (e Environment) Format(shell string) (string, error) {
	var b strings.Builder
	switch shell {
	case "sh":
		for _, v := range e.Variables {
			fmt.Fprintf(&b, "export %s=%s\n", v.Name, quoteSh(v.Value))
		}
	case "fish":
		for _, v := range e.Variables {
			fmt.Fprintf(&b, "set -gx %s %s\n", v.Name, quoteFish(v.Value))
		}
	case "powershell":
		for _, v := range e.Variables {
			fmt.Fprintf(&b, "$Env:%s = %s\n", v.Name, quotePowerShell(v.Value))
		}
	case "json":
		m := map[string]string{}
		for _, v := range e.Variables {
			m[v.Name] = v.Value
		}
		enc := plainjson.Encoder(&b)
		enc.SetIndent("", "  ")
		if err := enc.Encode(m); err != nil {
			return "", err
		}
	default:
		return "", fmt.Errorf("unknown shell %q: one of %s", shell, strings.Join(Shells, ", "))
	}
	return b.String(), nil
}

func quoteSh(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func quoteFish(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + "'"
}

// quotePowerShell doubles every character that PowerShell reads as a single quote.
func quotePowerShell(s string) string {
	return "'" + strings.NewReplacer("'", "''", "‘", "‘‘", "’", "’’", "‚", "‚‚", "‛", "‛‛").Replace(s) + "'"
}
