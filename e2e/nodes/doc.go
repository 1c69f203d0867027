// Package nodes runs three pursers on one PostgreSQL database. They spend from one budget at all doors
// while nodes are killed and the database is restarted.
//
// The books must equal the chain, and the budget must be spent exactly. The pursers are test builds with a clock
// that is set forward once the load is over, so that nothing waits for authorizations to expire.
//
// Package pgstore tests the store by itself, and e2e/kills deaths at chosen places.
package nodes
