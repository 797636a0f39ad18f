//! Payment (clause 2.5).

use latchwork_cluster::Worker;
use latchwork_partition::TransactionRows;
use latchwork_workload::tpcc::key::{DistrictKey, HistoryKey, WarehouseKey};
use latchwork_workload::tpcc::row::{Credit, Customer, District, History, Warehouse, note_payment};
use latchwork_workload::tpcc::{PaymentInput, TpccTable};

use super::{Ended, Failure, Work};

/// The text between the names of the warehouse and the district in H_DATA.
const BETWEEN: &[u8] = b"    ";

impl<T: TransactionRows<Worker>> Work<'_, T> {
    pub(super) async fn payment(&mut self, input: &PaymentInput) -> Result<Ended, Failure> {
        let PaymentInput { warehouse, district, .. } = *input;
        let (here, amount_cents) =
            (DistrictKey { warehouse, district }, i64::from(input.amount_cents));
        let there =
            DistrictKey { warehouse: input.customer_warehouse, district: input.customer_district };
        let customer = self.customer(there, &input.customer).await?;
        let key = customer.to_bytes();
        self.read_to_write(TpccTable::Customer, &key).await?;
        let mut row = Customer::decode(&self.buffers.row)?;
        row.balance_cents -= amount_cents;
        row.ytd_payment_cents += amount_cents;
        row.payments += 1;
        let balance_cents = row.balance_cents;
        match row.credit {
            Credit::Good => {
                let mut updated = [0; Customer::UPDATED_LEN];
                row.write_updated(&mut updated);
                self.write_updated(TpccTable::Customer, &key, &updated).await?;
            }
            Credit::Bad => {
                let text = &mut self.buffers.text;
                note_payment(customer, here, amount_cents, row.data, text);
                Customer { data: text, ..row }.encode(&mut self.buffers.made);
                let rows = self.tables.of(TpccTable::Customer);
                self.tx.update(rows, &key, &self.buffers.made).await?;
            }
        }

        let key = here.to_bytes();
        self.read_to_write(TpccTable::District, &key).await?;
        let mut row = District::decode(&self.buffers.row)?;
        row.ytd_cents += amount_cents;
        let mut updated = [0; District::UPDATED_LEN];
        row.write_updated(&mut updated);
        let text = &mut self.buffers.text;
        text.clear();
        text.extend_from_slice(BETWEEN);
        text.extend_from_slice(row.name);
        self.write_updated(TpccTable::District, &key, &updated).await?;

        let key = WarehouseKey { warehouse }.to_bytes();
        self.read_to_write(TpccTable::Warehouse, &key).await?;
        let mut row = Warehouse::decode(&self.buffers.row)?;
        row.ytd_cents += amount_cents;
        let mut updated = [0; Warehouse::UPDATED_LEN];
        row.write_updated(&mut updated);
        let text = &mut self.buffers.text;
        text.splice(..0, row.name.iter().copied());
        self.write_updated(TpccTable::Warehouse, &key, &updated).await?;

        let row = History {
            customer_warehouse: customer.warehouse,
            customer_district: customer.district,
            customer: customer.customer,
            at_us: self.now_us.get(),
            amount_cents: input.amount_cents,
            data: &self.buffers.text,
        };
        row.encode(&mut self.buffers.made);
        let key = HistoryKey { warehouse, district, number: self.history }.to_bytes();
        self.insert(TpccTable::History, &key).await?;
        Ok(Ended { shown: balance_cents, ..Ended::default() })
    }
}
