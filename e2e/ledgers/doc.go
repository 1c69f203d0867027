// Package ledgers has real accounting programs read what purser exports, and compares month-end statements
// with a chain.
//
// The tests run hledger, Ledger, Beancount and ofxtools: `make e2e-deps` installs the last two, and Debian
// has the packages hledger and ledger. `make ledgers` exports 100,000 payments.
package ledgers
